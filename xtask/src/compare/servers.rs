//! The servers of the comparison: how each is installed, started and ended.

use super::kind::{Kind, THREADS};
use super::load::probe;
use cabrank_checks_harness::binary::clean_environment;
use cabrank_checks_harness::processes::{self, Signal};
use cabrank_checks_harness::server::free_address;
use cabrank_checks_harness::until;
use rustix::process::{WaitOptions, wait};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// The names of the processes that are the server and not the application. Empty: one process is both.
    own: &'static [&'static str],
    roots: BTreeSet<u32>,
}

/// A server that can be started.
pub(crate) struct Candidate {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    own: &'static [&'static str],
    /// The programs, each with its arguments. `PORT` and `DIR` are replaced.
    commands: Vec<Vec<String>>,
}

/// Where the applications, the configurations and the Python environment are.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) venv: PathBuf,
}

impl Place {
    pub(crate) fn prepare() -> std::io::Result<Place> {
        let dir = std::env::current_dir()?.join("target/compare");
        for kind in Kind::ALL {
            fs::create_dir_all(dir.join(kind.name()))?;
            fs::write(dir.join(kind.name()).join(kind.file()), kind.source())?;
        }
        fs::write(dir.join("unicorn.rb"), "worker_processes 2\n")?;
        Ok(Place { venv: dir.join("venv"), dir })
    }

    /// Installs the peers that are missing, from Debian and PyPI. A failure leaves them out.
    pub(crate) fn install(&self) {
        let script = "
            missing=()
            for pair in nginx:nginx-light passenger:passenger puma:puma unicorn:unicorn; do
              command -v ${pair%:*} >/dev/null || missing+=(${pair#*:})
            done
            if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
              export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
              apt-get update -qq || true
              apt-get install -y -qq --no-install-recommends ${missing[@]} >/dev/null || true
            fi
            [ -x $0/bin/python ] || python3 -m venv $0
            for peer in gunicorn granian uwsgi; do
              [ -x $0/bin/$peer ] || $0/bin/pip install -q $peer || true
            done
            # With uvloop, which cabrank uses, too.
            [ -x $0/bin/uvicorn ] || $0/bin/pip install -q 'uvicorn[standard]' || true";
        let _ = Command::new("bash").args(["-c", script]).arg(&self.venv).status();
    }

    fn python(&self) -> PathBuf {
        let own = self.venv.join("bin/python");
        if own.exists() { own } else { "python3".into() }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns cabrank as `program`, and the peers.
pub(crate) fn candidates(place: &Place, programs: &[PathBuf]) -> Vec<Candidate> {
    let (dir, venv, python) =
        (place.dir.display(), place.venv.display(), place.python().display().to_string());
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let (app, app_type, file) = (kind.name(), kind.app_type(), kind.file());
        let mut add = |name: &str, own, commands: &[String]| {
            let commands = commands.iter().map(|line| words(line)).collect();
            all.push(Candidate { kind, name: name.into(), own, commands });
        };
        let threads =
            if kind.has_threads() { format!("--app-threads {THREADS}") } else { String::new() };
        for (number, program) in programs.iter().enumerate() {
            let name =
                if number == 0 { "cabrank".into() } else { format!("`{}`", program.display()) };
            let line = format!(
                "{} start {dir}/{app} --port PORT --environment production --min-instances 2 \
                 --max-pool-size 2 --python {python} --log-level warn {threads}",
                program.display()
            );
            add(&name, &["cabrank"], &[line]);
        }
        // Passenger knows no ASGI, and has threads only in its commercial edition.
        if !kind.has_threads() && kind != Kind::Asgi {
            let passenger = format!(
                "passenger start --engine builtin --address 127.0.0.1 --port PORT --environment production \
                 --max-pool-size 2 --min-instances 2 --app-type {app_type} --startup-file {file} --python {python} \
                 --nodejs node --disable-turbocaching --log-file {dir}/passenger-{app}.log \
                 --pid-file {dir}/passenger-{app}.pid"
            );
            add("Passenger", &["PassengerAgent"], &[passenger]);
        }
        match kind {
            Kind::Wsgi => {
                let uwsgi = format!(
                    "{venv}/bin/uwsgi --master --processes 2 --wsgi-file passenger_wsgi.py --disable-logging \
                     --die-on-term"
                );
                add("uWSGI", &[], &[format!("{uwsgi} --http 127.0.0.1:PORT --http-keepalive=60")]);
                let line = format!(
                    "{venv}/bin/gunicorn --workers 2 --worker-class gthread --threads 1 --keep-alive 60 \
                     --bind 127.0.0.1:PORT passenger_wsgi:application"
                );
                add("gunicorn", &[], &[line]);
                let line = format!(
                    "{venv}/bin/granian --interface wsgi --workers 2 --port PORT --http 1 --no-ws \
                     --log-level warning passenger_wsgi:application"
                );
                add("granian", &[], &[line]);
                let uwsgi = format!("{uwsgi} --socket {dir}/uwsgi.sock");
                add(
                    "nginx + uWSGI",
                    &["nginx"],
                    &[uwsgi, format!("nginx -c {dir}/nginx-wsgi.conf")],
                );
            }
            Kind::WsgiThreads => {
                let line = format!(
                    "{venv}/bin/gunicorn --workers 2 --worker-class gthread --threads {THREADS} --keep-alive 60 \
                     --bind 127.0.0.1:PORT passenger_wsgi:application"
                );
                add("gunicorn", &[], &[line]);
                let line = format!(
                    "{venv}/bin/granian --interface wsgi --workers 2 --port PORT --http 1 --no-ws \
                     --blocking-threads {THREADS} --log-level warning passenger_wsgi:application"
                );
                add("granian", &[], &[line]);
            }
            Kind::Rack | Kind::RackThreads => {
                let threads = if kind.has_threads() { THREADS } else { 1 };
                let line = format!(
                    "puma --quiet --workers 2 --threads {threads}:{threads} --environment production \
                     --bind tcp://127.0.0.1:PORT config.ru"
                );
                add("Puma", &[], &[line]);
                if kind == Kind::Rack {
                    let line = format!(
                        "unicorn --config-file {dir}/unicorn.rb --env production --listen 127.0.0.1:PORT config.ru"
                    );
                    add("Unicorn", &[], &[line]);
                }
            }
            Kind::Asgi => {
                let uvicorn = format!(
                    "{venv}/bin/uvicorn --no-access-log --timeout-keep-alive 60 --log-level warning asgi:app"
                );
                let one = |number| format!("{uvicorn} --uds {dir}/asgi-{number}.sock");
                let nginx = format!("nginx -c {dir}/nginx-asgi.conf");
                add("nginx + uvicorn", &["nginx"], &[one(1), one(2), nginx]);
                add("uvicorn", &[], &[format!("{uvicorn} --workers 2 --port PORT")]);
            }
            Kind::Node => {
                let node = |number| format!("env SOCKET={dir}/node-{number}.sock node app.js");
                let nginx = format!("nginx -c {dir}/nginx-node.conf");
                add("nginx + node", &["nginx"], &[node(1), node(2), nginx]);
            }
        }
    }
    all
}

fn nginx_configuration(dir: &Path, kind: Kind, address: SocketAddr) -> String {
    let dir = dir.display();
    let (servers, pass) = match kind {
        Kind::Wsgi => (
            format!("server unix:{dir}/uwsgi.sock max_fails=0;"),
            "uwsgi_pass app;\n\
             uwsgi_param QUERY_STRING $query_string; uwsgi_param REQUEST_METHOD $request_method;\n\
             uwsgi_param CONTENT_TYPE $content_type; uwsgi_param CONTENT_LENGTH $content_length;\n\
             uwsgi_param REQUEST_URI $request_uri; uwsgi_param PATH_INFO $document_uri;\n\
             uwsgi_param SERVER_PROTOCOL $server_protocol; uwsgi_param REMOTE_ADDR $remote_addr;\n\
             uwsgi_param SERVER_PORT $server_port; uwsgi_param SERVER_NAME $server_name;",
        ),
        _ => (
            format!(
                "server unix:{dir}/{name}-1.sock max_fails=0; server unix:{dir}/{name}-2.sock max_fails=0;\n\
                 keepalive 64;",
                name = kind.name()
            ),
            "proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection '';\n\
             proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        ),
    };
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} daemon off; worker_processes 2; pid {dir}/nginx-{kind:?}.pid; error_log {dir}/nginx.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {dir}/nginx-body;\n\
         proxy_temp_path {dir}/nginx-proxy; uwsgi_temp_path {dir}/nginx-uwsgi;\n\
         fastcgi_temp_path {dir}/nginx-fastcgi; scgi_temp_path {dir}/nginx-scgi;\n\
         upstream app {{ {servers} }}\n\
         server {{ listen {address}; location / {{ {pass} }} }} }}\n"
    )
}

impl Candidate {
    /// Starts the server, and waits until it answers.
    pub(crate) fn start(&self, place: &Place) -> Result<Server, String> {
        let failed = |error: std::io::Error| error.to_string();
        let address = free_address().map_err(failed)?;
        let app = self.kind.name();
        let configuration = nginx_configuration(&place.dir, self.kind, address);
        fs::write(place.dir.join(format!("nginx-{app}.conf")), configuration).map_err(failed)?;
        // Only nginx has servers behind it, which listen there. Those of a server before this one go on.
        for number in (1..=2).filter(|_| self.own.contains(&"nginx")) {
            let _ = fs::remove_file(place.dir.join(format!("{app}-{number}.sock")));
        }
        let log = place.dir.join(format!("{} {app}.out", self.name.replace('/', "_")));
        let log = fs::File::create(log).map_err(failed)?;
        let me = std::process::id();
        let before = processes::children(&processes::all(), me);
        for words in &self.commands {
            let words: Vec<String> = words
                .iter()
                .map(|word| word.replace("PORT", &address.port().to_string()))
                .collect();
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).current_dir(place.dir.join(app)).stdin(Stdio::null());
            clean_environment(&mut command);
            command.stdout(log.try_clone().map_err(failed)?);
            command.stderr(log.try_clone().map_err(failed)?);
            command.spawn().map_err(|error| format!("{}: {error}", words[0]))?;
        }
        let mut answers = Ok(());
        until(START_TIMEOUT, || {
            answers = probe(address);
            answers.is_ok()
        });
        // A second process may still start.
        std::thread::sleep(Duration::from_millis(500));
        let after = processes::children(&processes::all(), me);
        let roots = after.difference(&before).copied().collect();
        let server =
            Server { kind: self.kind, name: self.name.clone(), address, own: self.own, roots };
        answers.map(|()| server).map_err(|error| format!("no answer: {error}"))
    }
}

/// The processor time of one server so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) server: Duration,
    pub(crate) app: Duration,
}

impl Server {
    /// Returns whether server and application are the same processes.
    pub(crate) fn is_one(&self) -> bool {
        self.own.is_empty()
    }

    fn is_own(&self, name: &str) -> bool {
        self.is_one() || self.own.iter().any(|own| name.starts_with(own))
    }

    pub(crate) fn spent(&self) -> Spent {
        let all = processes::all();
        let mut spent = Spent::default();
        for pid in processes::tree(&all, &self.roots) {
            match all.get(&pid) {
                Some(stat) if self.is_own(&stat.comm) => spent.server += processes::time_in(stat),
                Some(stat) => spent.app += processes::time_in(stat),
                None => {}
            }
        }
        spent
    }

    /// Returns the memory of the server's own processes in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let all = processes::all();
        let own = processes::tree(&all, &self.roots).into_iter();
        own.filter(|pid| all.get(pid).is_some_and(|stat| self.is_own(&stat.comm)))
            .map(processes::proportional_memory)
            .sum()
    }
}

/// Ends all servers when it is dropped.
#[derive(Debug)]
pub(crate) struct EndAll;

impl Drop for EndAll {
    fn drop(&mut self) {
        let me = BTreeSet::from([std::process::id()]);
        let living = || -> BTreeSet<u32> {
            let mut ours = processes::tree(&processes::all(), &me);
            ours.retain(|pid| !me.contains(pid) && processes::is_alive(*pid));
            ours
        };
        let send = |pids: BTreeSet<u32>, signal| {
            pids.into_iter().for_each(|pid| processes::signal(pid, signal));
        };
        send(processes::children(&processes::all(), std::process::id()), Signal::TERM);
        until(Duration::from_secs(8), || living().is_empty());
        // A process that was killed leaves its own children to this one.
        while !living().is_empty() {
            send(living(), Signal::KILL);
            std::thread::sleep(Duration::from_millis(20));
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}
