//! The table of options. A new option is a row here, and the place that reads it.
//!
//! A row has the name, perhaps a letter, the type, the default (`Is` a value, `By` something, or `None`), the kind of value,
//! and the help. `CABRANK_WRITE_DOCS=1 cargo test -p cabrank-server page_of_options` writes `docs/options.md` from the table.

use crate::configuration::file::FileOptions;
use crate::configuration::places::{Addresses, BaseUri, FileMode, ServerName, Sockets};
use crate::configuration::table::{Default, Given, Heading, Row, Scope, options};
use crate::configuration::values::{
    AtLeastOne, BodySize, BufferSize, Count, HeadSize, LogFormat, LogLevel, MessageSize,
    OptionValue, Port, Seconds, SpawnMethod, Threads,
};
use crate::failure::Failure;
use crate::request::networks::Networks;
use clap::ArgMatches;
use std::path::PathBuf;

options! {
    Listener Options {
        address 'a': Addresses = Is("127.0.0.1"), "IP",
            "The addresses to listen on, separated by commas, or localhost; the option may stand several times. :: takes IPv4 \
             and IPv6, and only IPv6 beside an IPv4 address. Without --address and --port, a server with --socket or \
             --scgi-socket listens on no address";
        port 'p': Port = Is("3000"), "PORT",
            "The port of all addresses; 0: any free port. Behind CABRANK_PORT, the variable PORT names it, too";
        socket: Option<Sockets> = None, "PATH",
            "A Unix socket to listen on, absolute or below DIR; the option may stand several times. A socket there that no \
             program listens on is replaced";
        scgi_socket: Option<Sockets> = None, "PATH",
            "A Unix socket for SCGI, as scgi_pass of nginx and mod_proxy_scgi of Apache speak it: as --socket, with the same mode, \
             owner and group";
        socket_mode: FileMode = Is("0660"), "MODE", "The mode of the Unix sockets, in octal. A client needs the right to write";
        socket_owner: Option<String> = By("the server's user"), "NAME", "The user that owns the Unix sockets, if root starts cabrank";
        socket_group: Option<String> = By("the server's group, or that of a directory with the set-group-ID bit"), "NAME",
            "The group of the Unix sockets, such as that of the web server";
    }
    Server Options {
        trusted_proxies: Option<Networks> = By("the loopback, if the server listens only there"), "NETWORKS",
            "The proxies whose X-Forwarded-* and Forwarded headers and PROXY protocol are believed: addresses and networks, \
             separated by commas, such as 10.0.0.7,10.1.0.0/16. A server that listens only on the loopback trusts it, too; \
             none: it trusts no proxy";
    }
    Server Options {
        name: Option<ServerName> = By("that of the directory, or of the one around a link `current`"), "NAME",
            "The name of the server, by which `cabrank status`, `stop` and the other commands find it (--instance NAME)";
    }
    Server Options {
        pid_file: Option<PathBuf> = None, "PATH",
            "A file for the pid of the server, absolute or below DIR. It is removed at the end";
    }
    Application Options {
        environment 'e': Option<String> = By("by WSGI_ENV, NODE_ENV and the like, else development"), "NAME",
            "The environment of the application, such as production";
    }
    Server Options {
        threads: Option<Threads> = By("one for each core, and for Ruby and Python one for each two cores"), "N",
            "The number of threads that serve requests";
    }
    Server Pool {
        max_pool_size: AtLeastOne = Is("6"), "N", "The largest number of application processes";
    }
    Application Pool {
        min_instances: Count = Is("1"), "N", "The number of processes to keep even if idle";
    }
    Server Pool {
        max_instances_per_app: Count = Is("0"), "N",
            "The largest number of processes of one application; 0: no limit";
        pool_idle_time: Seconds = Is("300"), "SECONDS", "Shut a process down after this idle time; 0: never";
    }
    Application Pool {
        max_requests: Count = Is("0"), "N", "Replace a process after this many requests; 0: never";
        max_request_queue_size: Count = Is("100"), "N",
            "The largest number of requests that wait for a process; 0: no limit";
        force_max_concurrent_requests_per_process: Option<Count> = None, "N",
            "Override the number of requests that a process handles at once; 0: any number";
    }
    Application Application {
        app_type: Option<String> = By("by the startup file in DIR"), "TYPE",
            "The type of the application: rack, wsgi, asgi, python, node, generic, or one that DIR/cabrank.toml defines";
        startup_file: Option<String> = By("by type"), "FILE", "The file that starts the application";
        app: Option<String> = None, "MODULE:NAME",
            "The Python application, as gunicorn and uvicorn take it: package.module:name, or package.module:name() for a \
             function that returns the application. Modules are found in DIR, and where Python finds them";
        start_command: Option<String> = By("the line `web` of DIR/Procfile, if DIR has no startup file"), "COMMAND",
            "The command that starts an application which has no loader, such as './server --port $PORT'. The \
             application serves HTTP on the port $PORT of 127.0.0.1, or on the Unix socket $SOCKET";
        app_threads: Threads = Is("1"), "N",
            "The number of requests that one process serves at once, each on a thread of its own; for Rack and WSGI \
             applications that are thread-safe";
        early_hints: bool = Is("false"), "BOOL",
            "Give Rack applications `rack.early_hints`, which sends an answer 103 before the answer. Rails does so for its \
             style sheets and scripts. Old browsers and proxies, such as nginx before 1.29, do not understand it";
        base_uri: Option<BaseUri> = By("the path that a front names in SCRIPT_NAME, else the root"), "PATH",
            "The path below which the application is served, such as /blog. A request outside gets 404. The application finds the \
             path in SCRIPT_NAME (Rack, WSGI), root_path (ASGI), PASSENGER_BASE_URI and RAILS_RELATIVE_URL_ROOT";
        user: Option<String> = By("the caller"), "NAME",
            "The user that runs the application's processes, if root starts cabrank";
        user_by_owner: bool = Is("false"), "BOOL",
            "Without --user, run the application's processes as the owner of its startup file, if root starts cabrank. Only this owner \
             and root may write to the file and to the directories on its path, or no process starts";
        env_file: Option<PathBuf> = None, "FILE",
            "A file with variables for the application, absolute or below DIR: lines NAME=value. A value is taken as it stands, \
             without the spaces and the pair of quotes around it. A variable that cabrank has itself stays as it is. The application's user reads the file, again for each process";
        load_shell_environment: bool = Is("false"), "BOOL",
            "Start the application's processes by a login shell of their user, which sets PATH and other variables. rbenv, nvm \
             and pyenv need it where cabrank is started without such a shell, as by systemd";
        no_new_privileges: bool = Is("false"), "BOOL",
            "Let the application's processes, and all that they start, gain no rights by executing a program. Programs such as \
             sudo and sendmail then fail";
        ruby: PathBuf = Is("ruby"), "COMMAND", "The Ruby interpreter";
        python: PathBuf = Is("python3"), "COMMAND", "The Python interpreter";
        nodejs: PathBuf = Is("node"), "COMMAND", "The Node.js interpreter";
        start_timeout: Seconds = Is("90"), "SECONDS", "The time that a process has to become ready";
        spawn_method: SpawnMethod = Is("direct"), "METHOD",
            "How processes start: each loads the application (direct), or a preloader loads it once and forks them (smart; \
             for Ruby and Python, and types with a preloader)";
        max_preloader_idle_time: Seconds = Is("300"), "SECONDS",
            "The time after which an unused preloader leaves; 0: never";
    }
    Application Restarts {
        restart_dir: PathBuf = Is("tmp"), "DIR", "The directory of restart.txt, absolute or below DIR";
        rolling_restarts: Option<bool> = By("true in production and staging"), "BOOL",
            "On a restart, replace processes one by one",
            no "On a restart, replace all processes at once";
    }
    Server Restarts {
        stat_throttle_rate: Seconds = Is("0.05"), "SECONDS",
            "The shortest time between two checks of the restart files";
    }
    Server Limits {
        max_header_size: HeadSize = Is("65536"), "BYTES",
            "The largest head of a request, which may have 1024 fields. An answer may have as many, in 128 KiB";
        max_body: BodySize = Is("0"), "BYTES", "The largest body of a request; 0: no limit";
        buffer_request: BufferSize = Is("65536"), "BYTES",
            "The largest part of a body that waits in memory for the rest; 0: bodies are passed on as they come";
        max_buffered_request: BodySize = Is("1073741824"), "BYTES",
            "The largest part of a body that waits in a file for the rest, before it takes a process";
        max_buffered_answer: BodySize = Is("1073741824"), "BYTES",
            "The largest part of an answer that waits in a file for its client";
    }
    Application Limits {
        max_request_time: Seconds = Is("0"), "SECONDS",
            "Answer 504 to a request on which a process works for longer, and end that process; 0: no limit. A process that works on several \
             requests at once finishes the others first, within --drain-timeout. The time in which a client sends its body does not \
             count. The limit does not hold for event streams (text/event-stream) and upgraded connections";
        max_request_queue_time: Seconds = Is("0"), "SECONDS",
            "Answer 503 to a request that waits for a process for longer; 0: no limit";
        retry_requests: bool = Is("true"), "BOOL",
            "Send a request to another process if its process has died, where that is safe",
            no "Never send a request to a second process";
        underscores_in_headers: bool = Is("false"), "BOOL",
            "Pass header fields on that have `_` in their names. To Rack and WSGI, X_Y would look like X-Y, which a proxy may \
             have checked; if both come, they get only X-Y. ASGI and Node get both, under their own names";
    }
    Server Limits {
        max_connections: Option<AtLeastOne> = By("by the limit of open files"), "N",
            "The largest number of clients' connections";
    }
    Application Limits {
        max_requests_in_progress: Option<AtLeastOne> = By("by the limit of open files"), "N",
            "The largest number of requests in progress, for processes that take any number at once; further requests wait \
             as they do for a process";
        max_websocket_message: MessageSize = Is("16777216"), "BYTES",
            "The largest message that a WebSocket of an ASGI application takes; a longer one closes it with the code 1009";
    }
    Server Limits {
        keep_alive_timeout: Seconds = Is("60"), "SECONDS",
            "The longest time between two requests of a connection; 0: no limit";
        min_client_rate: BodySize = Is("500"), "BYTES",
            "The least rate of a client that sends a body or reads an answer, in bytes per second; 0: none";
        header_timeout: Seconds = Is("60"), "SECONDS", "The longest time for the head of a request; 0: no limit";
        client_timeout: Seconds = Is("60"), "SECONDS",
            "The longest pause of a client that sends or receives a body; 0: no limit";
        drain_timeout: Option<Seconds> = By("as --shutdown-timeout"), "SECONDS",
            "The time that a process has to leave at a restart, with its requests and its work in the background. Upgraded \
             connections have half of it, and at most 30 s. An upgraded connection also ends if no byte has moved for so long \
             while one side has ended its output, or while a client takes nothing from a process that is to leave. A client \
             has as long for the last bytes of a process that is gone. In the last tenth (1 s to 2.5 s) a process that is left gets \
             SIGQUIT and SIGTERM, and at the end SIGKILL";
        shutdown_timeout: Seconds = Is("60"), "SECONDS",
            "The time that a shutdown gives to open requests, to work in the background, and to processes to leave. After \
             half of it, a request without a process is refused, and each process leaves as soon as it has no request. It ends \
             with the same signals as --drain-timeout";
    }
    Server Logs {
        app_output: bool = Is("true"), "BOOL", "Log the lines that the application prints, at every level";
        log_level: LogLevel = Is("info"), "LEVEL",
            "The least severe level of the server's own lines: error, warn, info, debug or trace";
        log_file: Option<PathBuf> = By("standard error"), "FILE",
            "The file of the log, absolute or below DIR, to which lines are added. If it is renamed, as by logrotate, the next lines go to a new one. \
             Errors of the start go to standard error, too";
        log_format: LogFormat = Is("text"), "FORMAT", "The format of log lines: text or json";
    }
}
