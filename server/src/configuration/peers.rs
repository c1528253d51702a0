//! The options of other servers, and what does the same here.
//!
//! Users of gunicorn, uvicorn, Puma, Passenger and pm2 type the options that they know. The error for such an option says what
//! to write instead.

use crate::configuration::options::TABLE;

/// Returns what does the work of another server's option, which is given with its dashes.
pub(crate) fn answer(option: &str) -> Option<String> {
    let known = |option: &str| {
        let row = ANSWERS.iter().find(|(options, _)| options.contains(&option));
        row.map(|(_, answer)| (*answer).to_owned())
    };
    // A directive of the module of nginx.
    let of_module = || {
        let name = option.strip_prefix("--passenger-")?;
        let ours = TABLE.iter().find(|row| row.long() == name);
        ours.map_or_else(
            || known(&format!("--{name}")),
            |row| Some(format!("use --{name} {}", row.value)),
        )
    };
    known(option).or_else(of_module)
}

/// Returns what does the work of a key or a section of another server's file, in the terms of `cabrank.toml`.
pub(crate) fn answer_for_key(key: &str) -> Option<String> {
    let answer = answer(&format!("--{}", key.replace('_', "-")))?;
    let mut words = answer.split(' ').peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let (option, end) = without_end(word);
        let row = TABLE.iter().find(|row| option.strip_prefix("--") == Some(&row.long()));
        let Some(row) = row else {
            all.push(word.to_owned());
            continue;
        };
        let value = words.next_if(|word| end.is_empty() && is_value(word)).map(without_end);
        all.push(match value {
            None => format!("{}{end}", row.name),
            Some((value, end)) => match row.value {
                "N" | "SECONDS" | "BYTES" | "PORT" => format!("{} = {value}{end}", row.name),
                _ => format!("{} = \"{value}\"{end}", row.name),
            },
        });
    }
    Some(all.join(" "))
}

/// Splits the punctuation from the end of a word.
fn without_end(word: &str) -> (&str, &str) {
    word.split_at(word.trim_end_matches([',', ':', '.']).len())
}

/// Returns whether a word behind an option is its value.
fn is_value(word: &str) -> bool {
    let (word, _) = without_end(word);
    ["wsgi", "asgi", "smart", "production"].contains(&word)
        || !word.chars().any(char::is_lowercase) && word.starts_with(|c: char| c.is_alphanumeric())
}

/// Returns what does the work of an option or an argument that a tool such as `cabrank stop` does not have.
pub(crate) fn answer_for_tool(argument: &str) -> Option<&'static str> {
    match argument {
        "--pid-file" | "-P" => {
            Some("use --instance with the name, directory or port, or `kill $(cat FILE)`")
        }
        "--ignore-app-not-running" | "--ignore-passenger-not-running" => {
            Some("not needed: without a running server, the exit code is 3")
        }
        "--rolling-restart" => Some(
            "not needed: the server restarts as its option --rolling-restarts says, one by one in production",
        ),
        "--port" | "-p" | "--socket" | "--name" => Some(NAME_SERVER),
        option if option.starts_with('-') => None,
        _ => Some(NAME_SERVER),
    }
}

const NAME_SERVER: &str =
    "name the server with --instance: its pid, name, directory, port or socket";

/// Returns the command that does the work of one of `passenger-config` and the like.
pub(crate) fn answer_for_command(command: &str) -> Option<&'static str> {
    Some(match command {
        "memory-stats" | "system-metrics" => "use `cabrank status`: the column Memory",
        "restart-app" | "reload" => "use `cabrank restart`",
        "list-instances" => "use `cabrank list`",
        "detach-process" => "use `cabrank detach PID`",
        "reopen-logs" => {
            "not needed: if the file of --log-file is renamed, the next lines go to a new one"
        }
        "serve" | "run" => "use `cabrank start DIR`",
        _ => return None,
    })
}

const TLS: &str = "cabrank speaks no TLS: let nginx or another web server do so, and name that in --trusted-proxies";
const FOREGROUND: &str = "cabrank stays in the foreground: let systemd or another supervisor run it, or `nohup cabrank start … &`";
const OWN_LOG: &str = "use --log-file FILE, --log-level and --log-format";
const NO_ACCESS_LOG: &str = "cabrank writes no access log: the web server before it does";

const NODE_ARGS: &str = "write options of Node into the script `start` of package.json, before the file, or \
     set NODE_OPTIONS";

/// The options, and the answer for them.
const ANSWERS: &[(&[&str], &str)] = &[
    (&["--bind", "-b"], "use --address IP and --port PORT, or --socket PATH"),
    (&["--uds", "--unix-socket"], "use --socket PATH"),
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
        &["--worker-class", "-k", "--concurrency-model"],
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
    (&["--sticky-sessions"], "cabrank has no sticky sessions: each process may get each request"),
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
        &["--instance-registry-dir", "--data-buffer-dir"],
        "set XDG_RUNTIME_DIR, or else TMPDIR, for `cabrank start`",
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
    (
        &["--sticky-sessions-cookie-name", "--sticky-sessions-cookie-attributes"],
        "cabrank has no sticky sessions: each process may get each request",
    ),
    (
        &["--vary-turbocache-by-cookie", "--disable-turbocaching"],
        "not needed: cabrank caches no answers",
    ),
    (
        &["--unlimited-concurrency-path"],
        "use --force-max-concurrent-requests-per-process 0, for all paths",
    ),
    (
        &["--no-abort-websockets-on-process-shutdown"],
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

const MEMORY: &str =
    "use --max-requests N against processes that grow, or a limit of systemd (MemoryMax=)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_of_another_server_is_one_of_ours() {
        for option in ANSWERS.iter().flat_map(|(options, _)| *options) {
            let is_ours = TABLE.iter().any(|row| {
                *option == format!("--{}", row.long())
                    || row.short.is_some_and(|short| *option == format!("-{short}"))
            });
            assert!(!is_ours, "{option}");
            assert!(answer(option).is_some_and(|answer| !answer.ends_with('.')));
        }
        let all = ANSWERS.iter().flat_map(|(options, _)| *options);
        assert_eq!(all.clone().count(), all.collect::<std::collections::BTreeSet<_>>().len());
    }

    /// Returns the options in the first column of a table of `docs/passenger.md`, each with the second column.
    fn rows(page: &str) -> Vec<(&str, &str)> {
        let (_, table) = page.split_once("| option | here |").unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let named = rows.flat_map(|(options, here)| {
            options
                .split('`')
                .filter(|word| word.starts_with("--"))
                .map(move |option| (option, here))
        });
        named.collect()
    }

    #[test]
    fn each_option_of_passenger_is_here_or_is_answered() {
        let rows = rows(include_str!("../../../docs/passenger.md"));
        assert_eq!(rows.len(), 79);
        for (option, here) in rows {
            let is_ours = TABLE.iter().any(|row| option == format!("--{}", row.long()));
            assert_eq!(is_ours, here.starts_with("the same"), "{option}");
            assert!(is_ours || answer(option).is_some(), "{option} has no answer");
        }
    }

    #[test]
    fn each_answer_names_options_that_exist() {
        let tools =
            ["--rolling-restart", "--pid-file", "x"].into_iter().filter_map(answer_for_tool);
        for answer in ANSWERS.iter().map(|(_, answer)| *answer).chain(tools) {
            for word in answer
                .split([' ', ',', ':'])
                .filter(|word| word.starts_with("--") && *word != "--instance")
            {
                assert!(TABLE.iter().any(|row| word == format!("--{}", row.long())), "{word}");
            }
        }
    }

    #[test]
    fn a_key_is_answered_with_keys() {
        for (key, answer) in [
            ("app_start_command", "use start_command = \"COMMAND\", with $PORT or $SOCKET in it"),
            ("thread_count", "use app_threads = N: each process serves N requests at once"),
            ("workers", "use max_pool_size = N, and min_instances = N to keep them all"),
            ("app_env", "use environment = \"NAME\""),
            (
                "no_friendly_error_pages",
                "use environment = \"production\" or staging: their error pages show no details",
            ),
            (
                "unlimited_concurrency_path",
                "use force_max_concurrent_requests_per_process = 0, for all paths",
            ),
            ("passenger_max_requests", "use max_requests = N"),
            ("passenger_app_env", "use environment = \"NAME\""),
            ("app_root", "name the directory behind `cabrank start`"),
        ] {
            assert_eq!(answer_for_key(key).as_deref(), Some(answer), "{key}");
        }
        for (options, _) in ANSWERS {
            for option in options.iter().filter_map(|option| option.strip_prefix("--")) {
                let Some(answer) = answer_for_key(option) else {
                    assert!(option.contains('_'), "{option}");
                    continue;
                };
                let names_an_option = TABLE.iter().any(|row| {
                    answer.split([' ', ',', ':']).any(|word| word == format!("--{}", row.long()))
                });
                assert!(!names_an_option, "{option}: {answer}");
            }
        }
        for key in
            ["envvars", "env_var", "group", "turbocaching", "passenger_root", "passenger_pre_start"]
        {
            assert!(answer_for_key(key).is_some(), "{key}");
        }
    }
}
