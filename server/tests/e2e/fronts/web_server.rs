//! A web server of the test's own, which runs the configuration of a site.

use crate::server::{LONG, eventually};
use cabrank_checks_harness::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;

/// The user whose rights the web server has.
const USER: &str = "www-data";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Apache,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Apache => "apache",
        }
    }
}

/// A running web server. Its drop ends it.
pub(super) struct WebServer {
    kind: Kind,
    child: Child,
    pub(super) address: SocketAddr,
    tls: SocketAddr,
    place: TempDir,
}

/// Returns the group of the web server.
pub(super) fn group() -> u32 {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let line = groups.lines().find(|line| line.starts_with(&format!("{USER}:"))).unwrap();
    line.split(':').nth(2).unwrap().parse().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl WebServer {
    /// Starts it with the text of a site, which listens on the port 80 there.
    #[track_caller]
    pub(super) fn start(kind: Kind, site: &str) -> WebServer {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let (port, tls) = (free_port(), free_port());
        let dir = place.path().display();
        let (program, text) = match kind {
            Kind::Nginx => ("nginx", nginx(&place, site, port, tls)),
            Kind::Apache => ("apache2", apache(&place, site, port)),
        };
        let file = place.path().join("main.conf");
        fs::write(&file, text).unwrap();
        let log = File::create(place.path().join("log")).unwrap();
        let mut command = Command::new(program);
        match kind {
            Kind::Nginx => command.args(["-p", &dir.to_string(), "-c", file.to_str().unwrap()]),
            Kind::Apache => command.args(["-DFOREGROUND", "-f", file.to_str().unwrap()]),
        };
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|e| {
            panic!("{program}: {e}. `cargo xtask test --install` installs it.")
        });
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut started = WebServer { kind, child, address: at(port), tls: at(tls), place };
        eventually("the web server listens", || {
            let ended = started.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", started.log());
            Client::with_patience(started.address, LONG).ok()
        });
        started
    }

    fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.place.path().join(name)).unwrap_or_default();
        read("log") + &read("error.log")
    }

    /// Lets it read its configuration again, with new processes.
    pub(super) fn reload(&self) {
        let signal = match self.kind {
            Kind::Nginx => Signal::HUP,
            Kind::Apache => Signal::USR1,
        };
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks for a page by TLS.
    #[track_caller]
    pub(super) fn get_by_tls(&self, path: &str) -> String {
        let code = "import ssl, sys, urllib.request\n\
             context = ssl._create_unverified_context()\n\
             print(urllib.request.urlopen(sys.argv[1], context=context).read().decode(), end='')";
        let url = format!("https://{}{path}", self.tls);
        let out = Command::new("python3").args(["-c", code, &url]).output().unwrap();
        assert!(out.status.success(), "{out:?}: {}", self.log());
        String::from_utf8(out.stdout).unwrap()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // The first process ends the others.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the log of the web server ---\n{}", self.log());
        }
    }
}

/// Returns a configuration of nginx that includes the site, also with a certificate of its own.
fn nginx(place: &TempDir, site: &str, port: u16, tls: u16) -> String {
    let dir = place.path().display();
    certificate(place.path());
    let listen = format!(
        "listen 127.0.0.1:{port};\n  listen 127.0.0.1:{tls} ssl;\n  ssl_certificate {dir}/cert.pem;\n  ssl_certificate_key {dir}/key.pem;"
    );
    let site = site.replacen("listen 80;", &listen, 1);
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths: String =
        paths.iter().map(|name| format!("{name}_temp_path {dir}/{name};\n")).collect();
    format!(
        "user {USER};\nworker_processes 2;\ndaemon off;\npid {dir}/pid;\nerror_log {dir}/error.log;\n\
         events {{}}\nhttp {{\naccess_log off;\n{paths}{site}}}\n"
    )
}

fn certificate(dir: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]);
    openssl.arg("-keyout").arg(dir.join("key.pem")).arg("-out").arg(dir.join("cert.pem"));
    let out = openssl.output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

/// Returns a configuration of Apache that includes the site.
fn apache(place: &TempDir, site: &str, port: u16) -> String {
    let dir = place.path().display();
    let modules = [
        "mpm_event",
        "authz_core",
        "unixd",
        "alias",
        "setenvif",
        "headers",
        "proxy",
        "proxy_http",
        "proxy_scgi",
    ];
    let load = |name: &str| {
        let file = format!("/usr/lib/apache2/modules/mod_{name}.so");
        match Path::new(&file).exists() {
            true => format!("LoadModule {name}_module {file}\n"),
            // Debian has built it in.
            false => String::new(),
        }
    };
    let modules: String = modules.into_iter().map(load).collect();
    let site = site.replace("*:80", &format!("127.0.0.1:{port}"));
    format!(
        "{modules}ServerRoot {dir}\nDefaultRuntimeDir {dir}\nPidFile {dir}/pid\nErrorLog {dir}/error.log\nServerName localhost\n\
         Listen 127.0.0.1:{port}\nUser {USER}\nGroup {USER}\nStartServers 1\n{site}"
    )
}
