//! `--max-request-time`: what counts as the work of a process, and what becomes of its other requests.

use crate::server::{Server, app, eventually, is_alive, node, wsgi};
use cabrank_checks_harness::Client;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The limit of most of these tests. A client that is slow needs more than twice this time.
const LIMIT: [&str; 2] = ["--max-request-time", "2"];
const SLOW: Duration = Duration::from_secs(5);

/// A program with threads. `/hang` never ends; `/events` ends when there is a file `go`, and the limit does not hold for it.
fn program(head: &str) -> TempDir {
    let code = format!(
        "import os, socketserver, sys, time\n\
         from http.server import BaseHTTPRequestHandler\n\
         {head}\n\
         class Handler(BaseHTTPRequestHandler):\n    \
             protocol_version = 'HTTP/1.1'\n    \
             def do_GET(self):\n        \
                 events = self.path == '/events'\n        \
                 size = len(self.rfile.read(int(self.headers.get('Content-Length', 0))))\n        \
                 if self.path == '/hang': time.sleep(600)\n        \
                 body = f'{{size}} {{os.getpid()}}'.encode()\n        \
                 self.send_response(200)\n        \
                 self.send_header('Content-Length', str(len(body)))\n        \
                 self.send_header('Content-Type', 'text/event-stream' if events else 'text/plain')\n        \
                 self.end_headers()\n        \
                 while events and not os.path.exists('go'): time.sleep(0.01)\n        \
                 self.wfile.write(body)\n    \
             do_POST = do_GET\n    \
             def log_message(self, *arguments): pass\n    \
             def address_string(self): return 'someone'\n\
         class Program(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True\n\
         Program(os.environ['SOCKET'], Handler).serve_forever()\n"
    );
    app("program.py", &code)
}

const COMMAND: [&str; 2] = ["--start-command", "SOCKET=$SOCKET exec python3 program.py"];

/// Begins an upload of 6 bytes, without the last three.
fn begin_upload(server: &Server) -> Client {
    let mut client = server.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc").unwrap();
    client
}

/// Uploads slowly, and leaves within another upload. The process is the same afterwards.
fn uploads_slowly(dir: &Path, options: &[&str]) {
    let server = Server::start(dir, &[&LIMIT, &["--buffer-request", "0"], options].concat());
    let count = if options.contains(&"--min-instances") { 2 } else { 1 };
    eventually("the processes", || (server.pids().len() == count).then_some(()));
    let before = server.pids();
    let mut clients = [begin_upload(&server), begin_upload(&server)];
    eventually("the uploads have begun", || (server.status()["active"] != 0).then_some(()));
    std::thread::sleep(SLOW);
    let [stays, _] = &mut clients;
    stays.send(b"def").unwrap();
    let reply = stays.reply("POST").unwrap();
    let text = reply.text();
    assert!(reply.status == 200 && text.starts_with('6'), "{} {text}", reply.status);
    drop(clients);
    eventually("no request", || (server.status()["active"] == 0).then_some(()));
    assert_eq!(server.pids(), before);
    assert!(!server.log().contains("--max-request-time"), "{}", server.log());
}

#[test]
fn a_slow_upload_is_no_work_of_a_program() {
    uploads_slowly(program("").path(), &COMMAND);
}

#[test]
fn a_slow_upload_is_no_work_of_a_wsgi_process() {
    let dir = wsgi("", "return answer(len(environ['wsgi.input'].read()))");
    uploads_slowly(dir.path(), &["--app-threads", "2", "--max-pool-size", "1"]);
    uploads_slowly(dir.path(), &["--min-instances", "2", "--max-pool-size", "2"]);
}

#[test]
fn a_slow_upload_is_no_work_of_an_asgi_process() {
    let code = "async def app(scope, receive, send):\n    \
                    size, more = 0, scope['type'] == 'http'\n    \
                    while more:\n        \
                        event = await receive()\n        \
                        if event['type'] != 'http.request': return\n        \
                        size, more = size + len(event['body']), event['more_body']\n    \
                    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
                    await send({'type': 'http.response.body', 'body': b'%d' % size})\n";
    uploads_slowly(app("asgi.py", code).path(), &[]);
}

#[test]
fn a_slow_upload_is_no_work_of_a_rack_process() {
    let dir =
        app("config.ru", "run lambda { |env| [200, {}, [env['rack.input'].read.size.to_s]] }\n");
    uploads_slowly(dir.path(), &["--app-threads", "2", "--max-pool-size", "1"]);
}

#[test]
fn a_slow_upload_is_no_work_of_a_node_process() {
    let dir = node(
        "http.createServer((q, s) => { let n = 0; q.on('data', d => n += d.length); \
         q.on('end', () => s.end(String(n))) }).listen(0);",
    );
    uploads_slowly(dir.path(), &[]);
}

/// A process that reads its request and then hangs is at work, however slowly the client has sent it.
#[test]
fn work_after_a_slow_upload_has_the_whole_time_and_no_more() {
    let dir = wsgi("", "environ['wsgi.input'].read()\ntime.sleep(600)");
    let server = Server::start(dir.path(), &[&LIMIT[..], &["--buffer-request", "0"]].concat());
    let mut client = begin_upload(&server);
    std::thread::sleep(SLOW);
    assert!(!server.log().contains("--max-request-time"), "{}", server.log());
    client.send(b"def").unwrap();
    assert_eq!(client.reply("POST").unwrap().status, 504);
}

#[test]
fn a_program_finishes_its_other_requests_when_one_takes_too_long() {
    let dir = program("");
    let server =
        Server::start(dir.path(), &[&COMMAND[..], &["--max-request-time", "0.5"]].concat());
    let pid = server.pids()[0];
    let mut events = server.client();
    events.ask("/events").unwrap();
    let head = events.head().unwrap();
    assert_eq!(server.client().get("/hang").unwrap().status, 504);
    server.logs("when it has finished its other requests");
    // Another process serves new requests.
    assert_ne!(server.get("/"), format!("0 {pid}"));
    fs::write(dir.path().join("go"), "").unwrap();
    let mut body = String::new();
    std::io::Read::read_to_string(&mut events.body(&head).unwrap(), &mut body).unwrap();
    assert_eq!(body, format!("0 {pid}"));
    eventually("the end of the process", || (!is_alive(pid)).then_some(()));
}

/// A stream of events ends when there is a file `go`, and the limit does not hold for it.
#[test]
fn threads_finish_their_requests_when_one_takes_too_long() {
    let wsgi = wsgi(
        "",
        "if path == '/hang': time.sleep(600)\n\
         def events():\n    \
             yield b'begun'\n    \
             while not os.path.exists('go'): time.sleep(0.01)\n    \
             yield b' and done'\n\
         start_response('200 OK', [('Content-Type', 'text/event-stream')])\n\
         return events()",
    );
    let rack = app(
        "config.ru",
        "class Events; def each; yield 'begun'; sleep 0.01 until File.exist?('go'); yield ' and done'; end; end\n\
         run lambda { |env|\n  \
             sleep if env['PATH_INFO'] == '/hang'\n  \
             [200, { 'content-type' => 'text/event-stream' }, Events.new]\n\
         }\n",
    );
    for dir in [wsgi, rack] {
        let options = ["--app-threads", "2", "--max-request-time", "0.5"];
        let server = Server::start(dir.path(), &options);
        let mut events = server.client();
        events.ask("/events").unwrap();
        let head = events.head().unwrap();
        assert_eq!(server.client().get("/hang").unwrap().status, 504);
        fs::write(dir.path().join("go"), "").unwrap();
        let mut body = String::new();
        std::io::Read::read_to_string(&mut events.body(&head).unwrap(), &mut body).unwrap();
        assert_eq!(body, "begun and done");
    }
}

#[test]
fn a_program_without_other_requests_is_asked_for_a_backtrace() {
    let dir = program("import faulthandler, signal; faulthandler.register(signal.SIGQUIT)");
    let server =
        Server::start(dir.path(), &[&COMMAND[..], &["--max-request-time", "0.5"]].concat());
    let pid = server.pids()[0];
    assert_eq!(server.client().get("/hang").unwrap().status, 504);
    server.logs("in do_GET");
    eventually("the end of the process", || (!is_alive(pid)).then_some(()));
}
