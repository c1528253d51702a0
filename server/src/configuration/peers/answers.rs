//! The table of other servers' options. Its answers are in the terms of the command line.

const TLS: &str = "cabrank speaks no TLS: let nginx or another web server do so, and name that in --trusted-proxies";
const FOREGROUND: &str = "cabrank stays in the foreground: let systemd or another supervisor run it, or `nohup cabrank start … &`";
const OWN_LOG: &str = "use --log-file FILE, --log-level and --log-format";
const NO_ACCESS_LOG: &str = "cabrank writes no access log: the web server before it does";

const NODE_ARGS: &str = "write options of Node into the script `start` of package.json, before the file, or \
     set NODE_OPTIONS";

/// The options, and the answer for them.
pub(super) const ANSWERS: &[(&[&str], &str)] = &[
    (&["--bind", "-b"], "use --address IP and --port PORT, or --socket PATH"),
    (&["--uds", "--unix-socket", "--socket-file"], "use --socket PATH"),
    (
        &["--umask", "-m"],
        "use --socket-mode MODE for Unix sockets, and the umask of the shell or of systemd (UMask=)",
    ),
    (
        &["-n", "--proc-name", "--app-name", "--app-group-name"],
        "use --name NAME, by which the tools find the server",
    ),
    (&["--host", "-H", "-o"], "use --address IP"),
    (
        &["--workers", "-w", "--worker-processes", "--instances", "-i", "--processes"],
        "use --max-pool-size N, and --min-instances N to keep them all",
    ),
    (
        &["--worker-connections", "--thread-count", "-t"],
        "use --app-threads N: each process serves N requests at once",
    ),
    (
        &["--concurrency-model"],
        "remove it if it is `process`, the default. If it is `thread`, use --app-threads N",
    ),
    (
        &["--worker-class", "-k"],
        "ASGI applications are recognised. For WSGI and Rack use --app-threads N, also where gevent or eventlet has replaced threads",
    ),
    (
        &[
            "--ssl",
            "--ssl-certificate",
            "--ssl-certificate-key",
            "--ssl-port",
            "--certfile",
            "--keyfile",
            "--ssl-certfile",
            "--ssl-keyfile",
            "--ca-certs",
        ],
        TLS,
    ),
    (&["--max-memory", "--memory-limit", "--max-memory-restart"], MEMORY),
    (&["--timeout", "--max-request-duration"], "use --max-request-time SECONDS"),
    (
        &["--graceful-timeout", "--timeout-graceful-shutdown", "--kill-timeout"],
        "use --shutdown-timeout SECONDS",
    ),
    (
        &["--keep-alive", "--timeout-keep-alive", "--persistent-timeout"],
        "use --keep-alive-timeout SECONDS",
    ),
    (
        &["--limit-concurrency"],
        "use --force-max-concurrent-requests-per-process N: further requests go to other processes, or wait",
    ),
    (&["--wsgi-app", "--asgi-app"], "use --app MODULE:NAME"),
    (
        &["--loop", "--http", "--ws", "--lifespan"],
        "cabrank chooses this itself; uvloop is used where it is installed",
    ),
    (&["--sticky-sessions"], STICKY),
    (
        &["--friendly-error-pages"],
        "error pages show details unless --environment is production or staging",
    ),
    (&["--limit-max-requests"], "use --max-requests N"),
    (
        &["--max-requests-jitter"],
        "a jitter is not needed: no request fails when --max-requests replaces a process",
    ),
    (&["--backlog"], "use --max-request-queue-size N, for requests that wait for a process"),
    (&["--node-args", "--interpreter-args"], NODE_ARGS),
    (&["--preload", "--preload-app", "--fork-worker"], "use --spawn-method smart"),
    (
        &["--reload", "--watch", "--reload-dir"],
        "touch tmp/restart.txt in DIR, or run `cabrank restart`",
    ),
    (&["--app-env", "--rails-env", "--rack-env"], "use --environment NAME"),
    (
        &["--pre-start"],
        "not needed: the server starts a process before it accepts requests, and keeps --min-instances N of them",
    ),
    (
        &["--custom-error-page"],
        "let nginx or another web server in front do so, by error_page with proxy_intercept_errors",
    ),
    (&["--group"], "processes have the groups of --user NAME"),
    (&["--turbocaching"], "cabrank caches no answers"),
    (&["--document-root"], PUBLIC),
    (&["--root", "--enabled", "--intercept-errors"], MODULE),
    (
        &["--chdir", "--app-dir", "--app-root", "--dir", "--cwd"],
        "name the directory behind `cabrank start`",
    ),
    (&["--load-shell-envvars"], "use --load-shell-environment"),
    (&["--root-path", "--relative-url-root"], "use --base-uri PATH"),
    (&["--factory"], "use --app MODULE:NAME()"),
    (&["--wsgi-file", "-R", "--rackup"], "use --startup-file FILE"),
    (&["--module"], "use --app MODULE:NAME"),
    (&["--interface"], "use --app-type wsgi or --app-type asgi, where it is not recognised"),
    (&["--forwarded-allow-ips", "--proxy-headers"], "use --trusted-proxies NETWORKS"),
    (
        &["--limit-request-line", "--limit-request-fields", "--limit-request-field_size"],
        "use --max-header-size BYTES",
    ),
    (&["--ws-max-size"], "use --max-websocket-message BYTES"),
    (
        &["--env", "--envvar", "--envvars", "--env-var"],
        "use --env-file FILE, or set the variable for `cabrank start`: the application's processes inherit it",
    ),
    (&["--daemon", "--daemonize", "-D", "-d"], FOREGROUND),
    (&["--access-logfile", "--access-log"], NO_ACCESS_LOG),
    (&["--error-logfile", "--log-config", "--redirect-stdout"], OWN_LOG),
    (&["--pidfile", "--pid"], "use --pid-file PATH"),
    (
        &["--nginx-bin", "--nginx-config-template", "--nginx-version", "--engine"],
        "cabrank needs no nginx, and has one engine",
    ),
    (
        &["--nginx-tarball", "--debug-nginx-config"],
        "use `cabrank config nginx` for an nginx in front",
    ),
    (
        &["--socket-backlog", "--core-file-descriptor-ulimit"],
        "use --max-connections N: the rest is as much as the system allows",
    ),
    (
        &["--instance-registry-dir"],
        "set CABRANK_REGISTRY_DIR for `cabrank start` and the tools, which meet in /run without it",
    ),
    (
        &["--data-buffer-dir"],
        "set XDG_RUNTIME_DIR for `cabrank start`, or TMPDIR if the application has --user NAME",
    ),
    (&["--app-start-command"], "use --start-command COMMAND, with $PORT or $SOCKET in it"),
    (&["--meteor-app-settings"], "use --start-command COMMAND, which names the file"),
    (&["--app-support-kuria-protocol"], "define a type in DIR/cabrank.toml: [app_type.NAME]"),
    (
        &["--direct-instance-request-address"],
        "use `cabrank disable` and `cabrank detach` to choose among processes",
    ),
    (&["--static-files-dir"], PUBLIC),
    (
        &["--no-friendly-error-pages"],
        "use --environment production or staging: their error pages show no details",
    ),
    (&["--preload-bundler"], "not needed: the loader does so where DIR has a Gemfile"),
    (&["--app-file-descriptor-ulimit"], "use `ulimit -n` before `cabrank start`"),
    (&["--debugger"], "let the application open the port of a debugger itself"),
    (&["--resist-deployment-errors"], "not needed: old processes stay if new ones do not start"),
    (&["--sticky-sessions-cookie-name", "--sticky-sessions-cookie-attributes"], STICKY),
    (
        &["--vary-turbocache-by-cookie", "--disable-turbocaching"],
        "not needed: cabrank caches no answers",
    ),
    (
        &["--unlimited-concurrency-path", "--unlimited-concurrency-paths"],
        "use --force-max-concurrent-requests-per-process 0, for all paths",
    ),
    (
        &["--abort-websockets-on-process-shutdown", "--no-abort-websockets-on-process-shutdown"],
        "use --drain-timeout SECONDS: WebSockets have half of it",
    ),
    (
        &[
            "--disable-security-update-check",
            "--security-update-check-proxy",
            "--disable-anonymous-telemetry",
            "--anonymous-telemetry-proxy",
        ],
        "not needed: cabrank asks nobody for updates, and reports to nobody",
    ),
    (&["--disable-log-prefix"], "use --log-format"),
    (
        &[
            "--admin-panel-url",
            "--admin-panel-auth-type",
            "--admin-panel-username",
            "--admin-panel-password",
        ],
        "use `cabrank status`, whose option for JSON is for panels",
    ),
    (
        &[
            "--auto",
            "--ctl",
            "--ctls",
            "--binaries-url-root",
            "--runtime-check-only",
            "--no-install-runtime",
            "--no-compile-runtime",
        ],
        "not needed: there is nothing to install at a start",
    ),
    (&["--config", "-c", "-C"], "options stand in DIR/cabrank.toml"),
];

const PUBLIC: &str = "let a web server in front serve files: `cabrank config nginx` prints that, if DIR has a directory `public`";
const MODULE: &str =
    "nginx has no module for cabrank: `cabrank config nginx` prints a configuration for it";

const STICKY: &str = "cabrank has no sticky sessions: each process may get each request. With --max-pool-size 1 there is one process";

const MEMORY: &str =
    "use --max-requests N against processes that grow, or a limit of systemd (MemoryMax=)";
