//! SCGI: what a front's request becomes, and what the front gets.

use crate::server::{LONG, Server, Signal, app, eventually, node, run, start_command, wsgi};
use crate::users::runtime;
use cabrank_checks_harness::http::{Client, Reply, scgi_head};
use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A server on a socket for SCGI alone.
struct Front {
    server: Server,
    socket: PathBuf,
    _place: TempDir,
}

impl Front {
    fn start(dir: &Path, options: &[&str]) -> Front {
        let (runtime, place) = (runtime(), tempfile::tempdir().unwrap());
        let socket = place.path().join("app.scgi");
        let mut command = crate::server::command(runtime.path(), &["start", dir.to_str().unwrap()]);
        command.arg("--scgi-socket").arg(&socket).args(options);
        Front { server: Server::start_with(command, runtime), socket, _place: place }
    }

    fn connect(&self) -> Client<UnixStream> {
        Client::over_unix(&self.socket, LONG).unwrap()
    }

    /// Sends a request with these variables, and returns the answer.
    #[track_caller]
    fn ask(&self, variables: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut client = self.connect();
        client.send(&[&head(body.len(), variables)[..], body].concat()).unwrap();
        Reply::read_cgi(&mut client.stream, "GET").unwrap()
    }
}

/// Returns a head with the variables that each request has, unless these name them.
fn head(length: usize, variables: &[(&str, &str)]) -> Vec<u8> {
    let rest = [("REQUEST_METHOD", "POST"), ("REQUEST_URI", "/"), ("HTTP_HOST", "shop.example")];
    let rest = rest.iter().filter(|(name, _)| variables.iter().all(|(given, _)| given != name));
    scgi_head(length, variables.iter().chain(rest).copied())
}

/// An application that answers with variables, and with the length of the body.
fn echo() -> TempDir {
    wsgi(
        "",
        "size = len(environ['wsgi.input'].read())\n\
         names = 'REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REMOTE_ADDR', 'REMOTE_PORT', \
         'wsgi.url_scheme', 'SERVER_PORT', 'HTTP_HOST', 'CONTENT_TYPE', 'HTTP_X_A'\n\
         return answer('|'.join([str(size)] + [environ.get(name, '-') for name in names]))",
    )
}

const OF_CLIENT: &[(&str, &str)] = &[
    ("REQUEST_URI", "/a%20b?c=d"),
    ("REMOTE_ADDR", "203.0.113.7"),
    ("REMOTE_PORT", "4711"),
    ("HTTPS", "on"),
    ("SERVER_PORT", "8443"),
    ("CONTENT_TYPE", "text/plain"),
    ("HTTP_X_A", "1"),
    ("HTTP_X_A", "2"),
    ("HTTP_PROXY", "evil"),
];

#[test]
fn a_request_of_a_front_is_that_of_its_client() {
    let front = Front::start(echo().path(), &["--threads", "2"]);
    for body in [&b""[..], b"abc", &vec![b'x'; 3 << 20]] {
        let reply = front.ask(OF_CLIENT, body);
        let rest = "POST||/a b|c=d|203.0.113.7|4711|https|8443|shop.example|text/plain|1, 2";
        assert_eq!((reply.status, reply.text()), (200, format!("{}|{rest}", body.len())));
        assert!(
            reply.header("transfer-encoding").is_none() && reply.header("connection").is_none()
        );
    }
    // A client without an address is not the front, which is trusted.
    for address in ["", "unix:"] {
        let variables =
            [("HTTPS", "on"), ("REMOTE_ADDR", address), ("HTTP_X_FORWARDED_FOR", "10.0.0.1")];
        let text = front.ask(&variables, b"").text();
        assert_eq!(text, "0|POST||/||0.0.0.0|-|https|443|shop.example|-|-", "{address}");
    }
}

#[test]
fn the_socket_follows_the_rules_of_each_and_a_link_in_the_instance_directory_leads_to_it() {
    let front = Front::start(echo().path(), &["--socket-mode", "0600"]);
    let facts = front.socket.symlink_metadata().unwrap();
    assert!(facts.file_type().is_socket() && facts.mode() & 0o777 == 0o600, "{facts:?}");
    let at = format!("scgi:{}", front.socket.display());
    front.server.logs(&format!(" at {at}\n"));
    assert_eq!(front.server.status()["addresses"][0], at.clone());
    for word in [&at, front.socket.to_str().unwrap()] {
        let out = run(front.server.runtime.path(), &["status", "--instance", word]);
        assert!(out.status.success(), "{out:?}");
    }
    let link = || {
        let dirs = fs::read_dir(front.server.runtime.path()).unwrap().flatten();
        dirs.map(|dir| dir.path().join("request")).find(|link| link.is_symlink())
    };
    let first = link().unwrap();
    assert_eq!(fs::read_link(&first).unwrap(), front.socket);
    UnixStream::connect(&first).unwrap();
    fs::remove_file(&first).unwrap();
    eventually("the link is there again", link);
    let mut front = front;
    front.server.signal(Signal::TERM);
    assert!(front.server.ended().success());
    assert!(!front.socket.exists());
}

#[test]
fn a_server_without_such_a_socket_has_no_link() {
    let server = Server::start(echo().path(), &[]);
    let dirs = fs::read_dir(server.runtime.path()).unwrap().flatten();
    assert!(dirs.map(|dir| dir.path().join("request")).all(|link| !link.is_symlink()));
}

#[test]
fn only_a_trusted_front_says_who_the_client_is() {
    let dir = echo();
    let front = Front::start(dir.path(), &["--trusted-proxies", "none"]);
    let text = front.ask(OF_CLIENT, b"").text();
    assert!(text.contains("|127.0.0.1|-|http|80|"), "{text}");
    front.server.logs("127.0.0.1 sends REMOTE_ADDR, and is not a trusted proxy");
    // Its client may be a proxy, too, which is believed if it is listed.
    let fields = [
        ("REMOTE_ADDR", "10.0.0.7"),
        ("HTTP_X_FORWARDED_FOR", "198.51.100.1"),
        ("HTTP_X_FORWARDED_PROTO", "https"),
    ];
    for (options, client) in [
        (&[][..], "|10.0.0.7|-|http|"),
        (&["--trusted-proxies", "10.0.0.7"], "|198.51.100.1|-|https|"),
    ] {
        let front = Front::start(dir.path(), options);
        let text = front.ask(&fields, b"").text();
        assert!(text.contains(client), "{text}");
    }
    let front = Front::start(dir.path(), &[]);
    let mut client = front.connect();
    client
        .send(&[b"PROXY TCP4 203.0.113.9 127.0.0.1 1234 80\r\n", &head(0, &[])[..]].concat())
        .unwrap();
    let reply = Reply::read_cgi(&mut client.stream, "GET").unwrap();
    assert!(reply.text().contains("|203.0.113.9|1234|http|"), "{}", reply.text());
}

#[test]
fn the_front_names_the_path_below_which_the_application_is_served() {
    let dir = echo();
    let front = Front::start(dir.path(), &[]);
    let path = |uri: &str, name: &str, more: &[(&str, &str)]| {
        let variables = [&[("REQUEST_URI", uri), ("SCRIPT_NAME", name)][..], more].concat();
        let reply = front.ask(&variables, b"");
        let text = reply.text();
        let parts: Vec<_> = text.split('|').skip(2).take(2).collect();
        (reply.status, if reply.status == 200 { parts.join("|") } else { String::new() })
    };
    let of_apache = ("SCRIPT_FILENAME", "proxy:scgi://a/blog/a");
    for (uri, name, more, expected) in [
        ("/blog/a", "/blog", &[][..], "/blog|/a"),
        ("/blog", "/blog", &[], "/blog|"),
        ("/blog/a", "/blog/", &[], "/blog|/a"),
        ("/blog/a", "/", &[], "|/blog/a"),
        ("/blog/a", "/blog/a", &[of_apache], "|/blog/a"),
        ("/blog/a", "/blog", &[of_apache, ("PATH_INFO", "/a")], "/blog|/a"),
    ] {
        assert_eq!(path(uri, name, more), (200, expected.into()), "{uri} {name}");
    }
    for (uri, name) in
        [("/blogx", "/blog"), ("/%62log/", "/blog"), ("/blog/../x", "/blog"), ("/a,b/c", "/a,b")]
    {
        assert_eq!(path(uri, name, &[]).0, 404, "{uri} {name}");
    }
    // The option counts before the front.
    let front = Front::start(dir.path(), &["--base-uri", "/blog"]);
    let ask = |uri| front.ask(&[("REQUEST_URI", uri), ("SCRIPT_NAME", "/other")], b"");
    assert!(ask("/blog/a").text().starts_with("0|POST|/blog|/a|"));
    assert_eq!(ask("/other/a").status, 404);
    let asgi = app(
        "asgi.py",
        "async def application(scope, receive, send):\n    \
             if scope['type'] != 'http':\n        raise ValueError\n    \
             text = ' '.join((scope['root_path'], scope['path'], *map(str, scope['client'])))\n    \
             await send({'type': 'http.response.start', 'status': 200})\n    \
             await send({'type': 'http.response.body', 'body': text.encode()})\n",
    );
    let front = Front::start(asgi.path(), &[]);
    let variables = [OF_CLIENT, &[("SCRIPT_NAME", "/a%20b")]].concat();
    assert_eq!(front.ask(&variables, b"").status, 404, "a path with an escape is no mount");
    let variables = [
        ("REQUEST_URI", "/blog/x"),
        ("SCRIPT_NAME", "/blog"),
        ("REMOTE_ADDR", "203.0.113.7"),
        ("REMOTE_PORT", "9"),
    ];
    assert_eq!(front.ask(&variables, b"").text(), "/blog /blog/x 203.0.113.7 9");
}

#[test]
fn a_malformed_request_gets_a_page_and_the_end() {
    let front = Front::start(echo().path(), &["--max-header-size", "8192"]);
    let long = "x".repeat(9000);
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], 400),
        (b"12:CONTENT_LENG;", 400),
        (&scgi_head(0, [("REQUEST_METHOD", "GET")]), 400),
        (&head(0, &[("HTTP_X", "a\r\nY: b")]), 400),
        (&head(0, &[("SCGI", "2")]), 400),
        (&head(6, &[("HTTP_CONTENT_LENGTH", "5")]), 400),
        (&head(0, &[("HTTP_X", &long)]), 431),
    ] {
        let mut client = front.connect();
        client.send(bytes).unwrap();
        let reply = Reply::read_cgi(&mut client.stream, "GET").unwrap();
        assert_eq!(reply.status, status, "{}", String::from_utf8_lossy(bytes));
    }
    // Apache makes such connections to test a backend.
    drop(front.connect());
    assert_eq!(front.ask(&[], b"").status, 200);
    assert!(!front.server.log().contains("WARN the"), "{}", front.server.log());
}

/// Apache reads no answer before it has sent the body: an earlier end of the connection is an error for it.
#[test]
fn an_upload_that_is_refused_is_read_before_the_answer() {
    let front = Front::start(echo().path(), &["--max-body", "1000"]);
    let mut client = front.connect();
    client.send(&head(4 << 20, &[])).unwrap();
    for _ in 0..64 {
        client.send(&vec![b'x'; 64 << 10]).expect("the server takes the whole body");
    }
    assert_eq!(Reply::read_cgi(&mut client.stream, "GET").unwrap().status, 413);
}

#[test]
fn a_length_that_only_the_client_has_announced_counts() {
    let front = Front::start(echo().path(), &[]);
    let mut client = front.connect();
    client.send(&[&head(0, &[("HTTP_CONTENT_LENGTH", "3")])[..], b"abc"].concat()).unwrap();
    let reply = Reply::read_cgi(&mut client.stream, "GET").unwrap();
    assert!(reply.text().starts_with("3|"), "{}", reply.text());
}

#[test]
fn an_upgrade_is_a_tunnel_and_a_stream_arrives_as_it_is_made() {
    let dir = node(
        "const server = http.createServer((q, s) => {\n\
           s.write('first\\n'); q.resume(); process.once('SIGUSR2', () => s.end('last\\n')); });\n\
         server.on('upgrade', (q, socket) => {\n\
           socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n');\n\
           socket.on('data', (d) => socket.write('echo ' + d)); socket.on('end', () => socket.end('bye')); });\n\
         server.listen(0);",
    );
    let front = Front::start(dir.path(), &[]);
    let mut client = front.connect();
    let fields =
        [("REQUEST_METHOD", "GET"), ("HTTP_CONNECTION", "upgrade"), ("HTTP_UPGRADE", "echo")];
    client.send(&head(0, &fields)).unwrap();
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    assert!(text.starts_with("Status: 101 ") && text.contains("\r\nUpgrade: echo\r\n"), "{text}");
    client.send(b"hello").unwrap();
    client.expect_bytes(b"echo hello").unwrap();
    client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    client.expect_bytes(b"bye").unwrap();
    client.expect_end().unwrap();

    let mut client = front.connect();
    client.send(&head(0, &[])).unwrap();
    let mut text = String::new();
    while !text.ends_with("first\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    crate::server::signal(front.server.pids()[0], Signal::USR2);
    client.expect_bytes(b"last\n").unwrap();
    client.expect_end().unwrap();
}

#[test]
fn a_request_whose_process_has_died_is_sent_to_another_one() {
    let dir = wsgi("", "return answer(str(os.getpid()))");
    let runtime = tempfile::tempdir().unwrap();
    let socket = runtime.path().join("app.scgi");
    let mut command = start_command(runtime.path(), dir.path(), &[]);
    command.arg("--scgi-socket").arg(&socket);
    let server = Server::start_with(command, runtime);
    let pid = server.pids()[0];
    crate::server::signal(pid, Signal::KILL);
    let mut client = Client::over_unix(&socket, LONG).unwrap();
    client.send(&head(0, &[("REQUEST_METHOD", "GET")])).unwrap();
    let reply = Reply::read_cgi(&mut client.stream, "GET").unwrap();
    assert!(reply.status == 200 && reply.text() != pid.to_string(), "{}", reply.describe());
}

/// The buffers and limits are those of HTTP.
#[test]
fn slow_fronts_hold_no_process_and_end_in_time() {
    let dir = wsgi(
        "",
        "size = len(environ['wsgi.input'].read())\n\
         return answer('x' * (8 << 20) if path == '/large' else str(size))",
    );
    let options = ["--max-pool-size", "1", "--header-timeout", "1", "--client-timeout", "2"];
    let front = Front::start(dir.path(), &options);
    let mut senders: Vec<_> = (0..3).map(|_| front.connect()).collect();
    for sender in &mut senders {
        sender.send(&[&head(1000, &[])[..], b"a part"].concat()).unwrap();
    }
    let mut readers: Vec<_> = (0..3).map(|_| front.connect()).collect();
    for reader in &mut readers {
        reader.send(&head(0, &[("REQUEST_URI", "/large")])).unwrap();
    }
    let mut unfinished = front.connect();
    unfinished.send(b"500:CONTENT_LENGTH").unwrap();
    assert_eq!(front.ask(&[], b"abc").text(), "3");
    assert_eq!(Reply::read_cgi(&mut unfinished.stream, "GET").unwrap().status, 408);
    for sender in &mut senders {
        assert_eq!(Reply::read_cgi(&mut sender.stream, "GET").unwrap().status, 408);
    }
}

#[test]
fn a_full_queue_is_a_page_for_the_front() {
    let dir = wsgi(
        "",
        "while path == '/wait' and not os.path.exists(os.environ['GO']):\n    time.sleep(0.01)\n\
         return answer('ok')",
    );
    let (runtime, place) = (runtime(), tempfile::tempdir().unwrap());
    let (socket, go) = (place.path().join("app.scgi"), place.path().join("go"));
    let mut command =
        crate::server::command(runtime.path(), &["start", dir.path().to_str().unwrap()]);
    command.args(["--max-pool-size", "1", "--max-request-queue-size", "1"]).env("GO", &go);
    command.arg("--scgi-socket").arg(&socket);
    let server = Server::start_with(command, runtime);
    let mut clients: Vec<_> = (0..2).map(|_| Client::over_unix(&socket, LONG).unwrap()).collect();
    for client in &mut clients {
        client.send(&head(0, &[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/wait")])).unwrap();
    }
    eventually("one request waits", || {
        (server.status()["requests_in_queue"].as_u64() == Some(1)).then_some(())
    });
    let mut client = Client::over_unix(&socket, LONG).unwrap();
    client.send(&head(0, &[])).unwrap();
    let reply = Reply::read_cgi(&mut client.stream, "GET").unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    fs::write(&go, "").unwrap();
    for client in &mut clients {
        assert_eq!(Reply::read_cgi(&mut client.stream, "GET").unwrap().text(), "ok");
    }
}
