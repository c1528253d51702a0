//! nginx and Apache in front, with the configuration that `cabrank config` prints.
//!
//! The web server runs as www-data, and cabrank as daemon, if root runs the tests. `CABRANK_FRONTS=full` uploads 1 GB instead of 32 MB.

mod web_server;

use crate::server::{LONG, Server, Signal, app, command, eventually, run, start_command, wsgi};
use crate::users::{is_root, open_to_all, runtime};
use cabrank_checks_harness::{Client, Load, websocket};
use rustix::fs::{Gid, Uid, chown};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use web_server::{Kind, WebServer};

/// The user `daemon`.
const DAEMON: u32 = 1;

/// An application that shows what it knows of its client, streams, takes uploads, and echoes messages.
fn application() -> TempDir {
    let dir = app(
        "asgi.py",
        "import asyncio, os\n\
         async def answer(send, text):\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', str(len(text)).encode())]})\n    \
             await send({'type': 'http.response.body', 'body': text})\n\
         async def application(scope, receive, send):\n    \
             if scope['type'] == 'lifespan':\n        raise ValueError\n    \
             path = scope['path'].removeprefix(scope['root_path'])\n    \
             if scope['type'] == 'websocket':\n        \
                 await receive()\n        \
                 await send({'type': 'websocket.accept'})\n        \
                 while (message := await receive())['type'] == 'websocket.receive':\n            \
                     await send({'type': 'websocket.send', 'text': message['text']})\n        \
                 return\n    \
             if path == '/upload':\n        \
                 size, more = 0, True\n        \
                 while more:\n            \
                     message = await receive()\n            \
                     size += len(message.get('body', b''))\n            \
                     more = message.get('more_body', False)\n        \
                 return await answer(send, str(size).encode())\n    \
             if path == '/events':\n        \
                 await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', b'text/event-stream')]})\n        \
                 await send({'type': 'http.response.body', 'body': b'data: first\\n', 'more_body': True})\n        \
                 while not os.path.exists(os.environ['GO']):\n            await asyncio.sleep(0.01)\n        \
                 return await send({'type': 'http.response.body', 'body': b'data: last\\n'})\n    \
             if path == '/hints':\n        \
                 await send({'type': 'http.response.early_hint', 'links': [b'</style.css>; rel=preload']})\n        \
                 return await answer(send, b'hinted')\n    \
             if path in ('/broken', '/short'):\n        \
                 length = [(b'content-length', b'100')] if path == '/short' else []\n        \
                 await send({'type': 'http.response.start', 'status': 200, 'headers': length})\n        \
                 await send({'type': 'http.response.body', 'body': b'a part', 'more_body': True})\n        \
                 await asyncio.sleep(0.2)\n        \
                 raise RuntimeError('on purpose')\n    \
             fields = dict(scope['headers'])\n    \
             names = b'host', b'x-forwarded-host', b'x-forwarded-proto', b'x-forwarded-prefix', b'forwarded'\n    \
             facts = [scope['client'][0], scope['scheme'], scope['root_path'], scope['raw_path'].decode(), scope['query_string'].decode()]\n    \
             await answer(send, '|'.join(facts + [fields.get(name, b'').decode() for name in names]).encode())\n",
    );
    open_to_all(dir.path());
    dir
}

/// cabrank on a socket in a directory that the group of the web server may enter, and the web server in front of it.
struct Site {
    web_server: WebServer,
    server: Option<Server>,
    options: Vec<String>,
    dir: TempDir,
    _place: TempDir,
}

impl Site {
    fn start(kind: Kind, protocol: &str, options: &[&str]) -> Site {
        Site::of(application(), kind, protocol, options)
    }

    /// Starts both for the application in this directory.
    fn of(dir: TempDir, kind: Kind, protocol: &str, options: &[&str]) -> Site {
        let place = tempfile::tempdir().unwrap();
        if is_root() {
            chown(
                place.path(),
                Some(Uid::from_raw(DAEMON)),
                Some(Gid::from_raw(web_server::group())),
            )
            .unwrap();
        }
        // The socket gets the group of the directory.
        fs::set_permissions(place.path(), Permissions::from_mode(0o2750)).unwrap();
        let socket = place.path().join("app.sock");
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        options.extend([protocol.into(), socket.display().to_string()]);
        options.extend(["--name".into(), "shop".into()]);
        let empty = runtime();
        let mut config =
            command(empty.path(), &["config", kind.name(), dir.path().to_str().unwrap()]);
        let out = config.args(&options).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        let web_server = WebServer::start(kind, &String::from_utf8(out.stdout).unwrap());
        let mut site = Site { web_server, server: None, options, dir, _place: place };
        site.start_server();
        site
    }

    /// Starts cabrank, as daemon.
    fn start_server(&mut self) {
        let runtime = runtime();
        let mut command = command(runtime.path(), &["start", self.dir.path().to_str().unwrap()]);
        command.args(&self.options).args(["--python", "/usr/bin/python3"]).env("GO", self.go());
        if is_root() {
            chown(runtime.path(), Some(Uid::from_raw(DAEMON)), Some(Gid::from_raw(DAEMON)))
                .unwrap();
            command = as_daemon(&command);
        }
        self.server = Some(Server::start_with(command, runtime));
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    /// Runs a command for the server, which is another user's.
    fn tool(&self, command: &str, options: &[&str]) -> String {
        let server = self.server.as_ref().unwrap();
        let pid = server.pid().to_string();
        let out = run(server.runtime.path(), &[&[command, "--instance", &pid], options].concat());
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn pids(&self) -> Vec<u64> {
        let status: Value = serde_json::from_str(&self.tool("status", &["--json"])).unwrap();
        let processes = status["groups"][0]["processes"].as_array().unwrap();
        processes.iter().map(|process| process["pid"].as_u64().unwrap()).collect()
    }

    fn go(&self) -> PathBuf {
        self.dir.path().join("go")
    }

    fn client(&self) -> Client {
        Client::with_patience(self.web_server.address, LONG).unwrap()
    }

    #[track_caller]
    fn get(&self, path: &str) -> (u16, String) {
        let reply = self.client().get(path).unwrap();
        (reply.status, reply.text())
    }
}

/// Returns the command of a server, run by daemon. The binary may be where daemon may not go.
fn as_daemon(server: &Command) -> Command {
    let code = format!(
        "program = os.open(sys.argv[1], os.O_PATH)\nos.setgroups([])\nos.setgid({DAEMON})\nos.setuid({DAEMON})\n\
         os.execve(program, sys.argv[1:], os.environ)"
    );
    crate::server::after(&code, server)
}

/// Uploads with a length and in chunks, many requests on one connection, and an event stream.
fn requests(site: &mut Site) {
    let mut client = site.client();
    for number in 0..20 {
        let reply = client.get(&format!("/{number}")).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.describe());
        assert!(!reply.closes(), "the connection stays open");
    }
    let megabytes = match std::env::var("CABRANK_FRONTS").as_deref() {
        Ok("full") => 1024,
        _ => 32,
    };
    let part = vec![b'x'; 1 << 20];
    let mut client = site.client();
    let head =
        format!("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", megabytes << 20);
    client.send(head.as_bytes()).unwrap();
    (0..megabytes).for_each(|_| client.send(&part).unwrap());
    let reply = client.reply("POST").unwrap();
    assert_eq!((reply.status, reply.text()), (200, (megabytes << 20).to_string()));

    let mut client = site.client();
    client.ask("/events").unwrap();
    let head = client.head().unwrap();
    let mut events = BufReader::new(client.body(&head).unwrap());
    let mut first = String::new();
    events.read_line(&mut first).unwrap();
    fs::write(site.go(), "").unwrap();
    let mut last = String::new();
    events.read_to_string(&mut last).unwrap();
    assert_eq!((&*first, &*last), ("data: first\n", "data: last\n"));
    fs::remove_file(site.go()).unwrap();
}

fn upload_in_chunks(site: &Site) -> (u16, String) {
    let mut client = site.client();
    client.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"10000\r\n", &[b'x'; 0x10000][..], b"\r\n"].concat();
    (0..20).for_each(|_| drop(client.send(&chunk)));
    let _ = client.send(b"0\r\n\r\n");
    let reply = client.reply("POST").unwrap();
    (reply.status, reply.text())
}

/// The client is the web server's, and a client forges nothing.
fn origin(site: &Site, over: &str) {
    let fields = [
        ("Host", "shop.example"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil"),
        ("X-Forwarded-Prefix", "/evil"),
        ("Forwarded", "for=6.6.6.6;proto=https"),
        ("X-Forwarded-Ssl", "on"),
    ];
    let reply = site.client().request("GET", "/a%2Fb//c?d=%20", &fields, b"").unwrap();
    let text = reply.text();
    assert!(text.starts_with("127.0.0.1|http||/a%2Fb//c|d=%20|shop.example|"), "{over}: {text}");
    assert!(
        !text.contains("evil") && !text.contains("6.6.6.6") && !text.contains("https"),
        "{over}: {text}"
    );
}

/// Returns whether the client sees that an answer breaks off: one of unknown length, and one that is shorter than its length.
fn sees_breaks(site: &Site) -> (bool, bool) {
    let sees = |path| site.client().get(path).is_err();
    (sees("/broken"), sees("/short"))
}

/// Returns the statuses that a client gets of an answer with early hints.
fn statuses(site: &Site) -> Vec<u16> {
    let mut client = site.client();
    client.ask("/hints").unwrap();
    let mut all = Vec::new();
    while all.last().is_none_or(|status| *status < 200) {
        all.push(client.head().unwrap().status);
    }
    all
}

fn messages(site: &Site) {
    let mut client = site.client();
    websocket::open(&mut client, "/echo").unwrap();
    for _ in 0..3 {
        websocket::echo(&mut client, b"hello").unwrap();
    }
}

/// The web server and cabrank restart, one without the other.
fn restarts(site: &mut Site) {
    let load = Load::start(site.web_server.address, "/", 2);
    eventually("answers", || (load.answered() > 8).then_some(()));
    let old = site.pids();
    site.tool("restart", &[]);
    eventually("new processes", || site.pids().iter().all(|pid| !old.contains(pid)).then_some(()));
    let seen = load.stop();
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    site.web_server.reload();
    assert_eq!(site.get("/").0, 200);
    // The server goes and comes back. The web server needs no word about it.
    site.server().signal(Signal::TERM);
    assert!(site.server().ended().success());
    assert!(matches!(site.get("/").0, 502 | 503), "without the server");
    site.start_server();
    let site = &*site;
    eventually("the server is back", || (site.get("/").0 == 200).then_some(()));
}

/// Below a path, only the path and what is below it reaches the application.
fn below_a_path(kind: Kind, protocol: &str) {
    let site = Site::start(kind, protocol, &["--base-uri", "/blog"]);
    for (path, facts) in [
        ("/blog", "|http|/blog|/blog||"),
        ("/blog/a?b", "|http|/blog|/blog/a|b|"),
        ("/blog/a%20b", "|http|/blog|/blog/a%20b||"),
    ] {
        let (status, text) = site.get(path);
        assert!(status == 200 && text.contains(facts), "{path}: {status} {text}");
    }
    for path in ["/", "/blogx", "/x/../blogx", "/blog/../x"] {
        assert_eq!(site.get(path).0, 404, "{path}");
    }
}

/// The web server serves the files of `public` itself, and the application answers all else.
fn files(kind: Kind, protocol: &str, base: &str) {
    let dir = application();
    let public = dir.path().join("public");
    fs::create_dir_all(public.join("a b")).unwrap();
    for file in ["hello.txt", "index.html", "a b/c.txt"] {
        fs::write(public.join(file), "static").unwrap();
    }
    open_to_all(dir.path());
    let options: &[&str] = if base.is_empty() { &[] } else { &["--base-uri", base] };
    let site = Site::of(dir, kind, protocol, options);
    let get = |path: &str| site.get(&format!("{base}{path}"));
    for path in ["/hello.txt", "/hello.txt?a=b", "/a%20b/c.txt"] {
        assert_eq!(get(path), (200, "static".into()), "{path}");
    }
    for path in ["/", "/a%20b", "/a%20b/", "/none.txt", "/x%2Fy"] {
        let (status, text) = get(path);
        let facts = format!("|http|{base}|{base}{path}|");
        assert!(status == 200 && text.contains(&facts), "{path}: {status} {text}");
    }
    for path in ["/../asgi.py", "/%2e%2e/asgi.py", "/..%2fasgi.py", "/a%20b/../../asgi.py"] {
        let (status, text) = get(path);
        assert!(!text.contains("async def"), "{path}: {status} {text}");
    }
    if base.is_empty() {
        origin(&site, "with files");
        assert_eq!(upload_in_chunks(&site), (200, (20 << 16).to_string()));
        messages(&site);
    }
}

#[test]
fn nginx_serves_the_files_of_public() {
    files(Kind::Nginx, "--socket", "");
    files(Kind::Nginx, "--socket", "/blog");
    files(Kind::Nginx, "--scgi-socket", "/blog");
}

#[test]
fn apache_serves_the_files_of_public() {
    files(Kind::Apache, "--socket", "");
    files(Kind::Apache, "--socket", "/blog");
    files(Kind::Apache, "--scgi-socket", "/blog");
}

/// Two applications share a host, by the parts that the command prints. One is below a path.
#[test]
fn two_applications_on_one_host() {
    for kind in [Kind::Nginx, Kind::Apache] {
        let apps = [("first", None), ("second", Some("/api"))].map(|(name, base)| {
            let (dir, runtime) = (application(), runtime());
            let socket = runtime.path().join("app.sock").display().to_string();
            let mut options = vec!["--socket", &socket, "--socket-mode", "0666", "--name", name];
            options.extend(base.iter().flat_map(|base| ["--base-uri", base]));
            let print = |part| {
                let args = ["config", kind.name(), dir.path().to_str().unwrap(), "--part", part];
                let out = command(runtime.path(), &args).args(&options).output().unwrap();
                assert!(out.status.success(), "{out:?}");
                String::from_utf8(out.stdout).unwrap()
            };
            let parts = (print("outside"), print("inside"));
            open_to_all(runtime.path());
            let start = start_command(runtime.path(), dir.path(), &options);
            (parts, Server::start_with(start, runtime), dir)
        });
        let [(first, ..), (second, ..)] = &apps;
        let text = match kind {
            Kind::Nginx => format!(
                "{}{}server {{\nlisten 80;\nserver_name a;\n{}{}}}\n",
                first.0, second.0, first.1, second.1
            ),
            Kind::Apache => {
                format!("<VirtualHost *:80>\nServerName a\n{}{}</VirtualHost>\n", second.1, first.1)
            }
        };
        let web_server = WebServer::start(kind, &text);
        for (path, facts) in [("/x", "|http||/x|"), ("/api/x", "|http|/api|/api/x|")] {
            let reply = Client::with_patience(web_server.address, LONG).unwrap().get(path).unwrap();
            assert!(reply.status == 200 && reply.text().contains(facts), "{}", reply.describe());
        }
    }
}

/// The locations that the page shows stand beside the printed ones.
#[test]
fn nginx_has_other_locations_beside_the_printed_ones() {
    let body = "n = len(environ['wsgi.input'].read())\nreturn answer(f\"{path} {n} {environ.get('HTTP_X_OWN')}\")";
    let (dir, runtime) = (wsgi("", body), runtime());
    fs::create_dir_all(dir.path().join("public/assets")).unwrap();
    fs::write(dir.path().join("public/assets/a.txt"), "static").unwrap();
    open_to_all(dir.path());
    open_to_all(runtime.path());
    let root = dir.path().to_str().unwrap();
    let socket = runtime.path().join("app.sock").display().to_string();
    let options = ["--socket", &socket, "--socket-mode", "0666", "--name", "shop"];
    let mut config = command(runtime.path(), &["config", "nginx", root]);
    let out = config.args(options).output().unwrap();
    let printed = String::from_utf8(out.stdout).unwrap();
    let server = Server::start_with(start_command(runtime.path(), dir.path(), &options), runtime);
    let page = include_str!("../../../docs/behind-a-web-server.md");
    let (_, others) = page.split_once("<!-- other locations -->\n```nginx\n").unwrap();
    let others = others.split_once("```").unwrap().0.replace("/srv/shop/current", root);
    let add = |before: &str, text: &str| {
        assert_eq!(printed.matches(before).count(), 1, "{printed}");
        printed.replace(before, &format!("{text}{before}"))
    };
    let first = "  location / {";
    let of_server = format!("{others}proxy_set_header X-Own server;\n");
    let web_server = WebServer::start(Kind::Nginx, &add(first, &of_server));
    let ask = |head: &str, body: &[u8]| {
        let mut client = Client::with_patience(web_server.address, LONG).unwrap();
        client.send(head.as_bytes()).unwrap();
        client.send(body).unwrap();
        client.reply("GET").unwrap()
    };
    let get = |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"), b"");
    let file = get("/assets/a.txt");
    assert_eq!((file.text().as_str(), file.header("Cache-Control").is_some()), ("static", true));
    for path in ["/assets/none", "/admin/x", "/x"] {
        assert_eq!(get(path).text(), format!("{path} 0 None"));
    }
    let upload =
        format!("POST /admin/x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 2 << 20);
    assert_eq!(ask(&upload, &vec![b'x'; 2 << 20]).text(), format!("/admin/x {} None", 2 << 20));
    drop(web_server);
    let within = add("    proxy_http_version 1.1;", "    proxy_set_header X-Own location;\n");
    let web_server = WebServer::start(Kind::Nginx, &within);
    let reply = Client::with_patience(web_server.address, LONG).unwrap().get("/x").unwrap();
    assert_eq!(reply.text(), "/x 0 location");
    drop(server);
}

#[test]
fn nginx_over_a_socket() {
    let mut site = Site::start(Kind::Nginx, "--socket", &[]);
    requests(&mut site);
    assert_eq!(upload_in_chunks(&site), (200, (20 << 16).to_string()));
    origin(&site, "nginx, HTTP");
    assert_eq!(sees_breaks(&site), (true, true));
    messages(&site);
    restarts(&mut site);
}

#[test]
fn nginx_over_scgi() {
    let mut site = Site::start(Kind::Nginx, "--scgi-socket", &[]);
    requests(&mut site);
    assert_eq!(upload_in_chunks(&site), (200, (20 << 16).to_string()));
    origin(&site, "nginx, SCGI");
    // Over SCGI, the end of the connection ends an answer without a length.
    assert_eq!(sees_breaks(&site), (false, true));
    assert_eq!(statuses(&site), [200]);
    messages(&site);
    restarts(&mut site);
}

#[test]
fn nginx_below_a_path() {
    for protocol in ["--socket", "--scgi-socket"] {
        below_a_path(Kind::Nginx, protocol);
    }
}

#[test]
fn nginx_says_that_the_client_came_by_tls() {
    for protocol in ["--socket", "--scgi-socket"] {
        let site = Site::start(Kind::Nginx, protocol, &[]);
        assert_eq!(site.web_server.get_by_tls("/x").split('|').nth(1), Some("https"), "{protocol}");
    }
}

#[test]
fn apache_over_a_socket() {
    let mut site = Site::start(Kind::Apache, "--socket", &[]);
    requests(&mut site);
    assert_eq!(upload_in_chunks(&site), (200, (20 << 16).to_string()));
    origin(&site, "Apache, HTTP");
    assert_eq!(sees_breaks(&site), (true, true));
    assert_eq!(statuses(&site), [103, 200]);
    messages(&site);
    restarts(&mut site);
}

#[test]
fn apache_over_scgi() {
    let mut site = Site::start(Kind::Apache, "--scgi-socket", &[]);
    requests(&mut site);
    // Apache refuses a body without a length, because SCGI needs one.
    assert_eq!(upload_in_chunks(&site).0, 411);
    origin(&site, "Apache, SCGI");
    // Apache does not compare what comes with the length.
    assert_eq!(sees_breaks(&site), (false, false));
    assert_eq!(statuses(&site), [200]);
    restarts(&mut site);
}

#[test]
fn apache_below_a_path() {
    for protocol in ["--socket", "--scgi-socket"] {
        below_a_path(Kind::Apache, protocol);
    }
}

/// Stock parameters of Debian, as `include scgi_params` has them.
#[test]
fn nginx_with_the_parameters_of_debian() {
    let (dir, runtime) = (application(), runtime());
    let socket = runtime.path().join("app.scgi");
    let mut command = start_command(runtime.path(), dir.path(), &["--socket-mode", "0666"]);
    command.arg("--scgi-socket").arg(&socket);
    let _server = Server::start_with(command, runtime);
    let at = socket.display();
    let text = format!(
        "server {{ listen 80; server_name _; location / {{ scgi_pass unix:{at}; include /etc/nginx/scgi_params; }}\n\
         location /off {{ scgi_pass unix:{at}; include /etc/nginx/scgi_params; scgi_request_buffering off; scgi_param SCRIPT_NAME /off; }} }}\n"
    );
    let web_server = WebServer::start(Kind::Nginx, &text);
    let mut client = Client::with_patience(web_server.address, LONG).unwrap();
    let fields = [("Host", "shop.example:8080"), ("Proxy", "evil")];
    let reply = client.request("GET", "/a?b", &fields, b"").unwrap();
    assert!(reply.text().starts_with("127.0.0.1|http||/a|b|shop.example|"), "{}", reply.describe());
    let body = vec![b'x'; 1_000_000];
    for path in ["/upload", "/off/upload"] {
        let reply = client.request("POST", path, &[], &body).unwrap();
        assert_eq!((reply.status, &*reply.text()), (200, "1000000"), "{path}");
    }
    assert!(Path::new("/etc/nginx/scgi_params").exists());
}
