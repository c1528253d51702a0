//! Ruby applications: the sample, and what differs from other languages.

use crate::server::{Server, app, eventually, example, run};
use crate::wrong_input::fails;
use cabrank_checks_harness::websocket;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

/// Copies the sample, so that a restart of one test does not reach the others.
fn sample() -> TempDir {
    app("config.ru", &fs::read_to_string(example("rack").join("config.ru")).unwrap())
}

fn rack(body: &str) -> TempDir {
    app("config.ru", &format!("run(lambda do |env|\n{body}\nend)\n"))
}

fn pid_of(server: &Server) -> u32 {
    let text = server.get("/slow?ms=0");
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_sample_answers_streams_and_takes_uploads() {
    let dir = sample();
    let server = Server::start(dir.path(), &[]);
    assert!(server.get("/").contains("Ruby"));
    assert_eq!(server.get("/stream").lines().count(), 10);
    let env = server.get("/env?a=b%20c");
    for part in [
        "\"QUERY_STRING\": \"a=b%20c\"",
        "\"PATH_INFO\": \"/env\"",
        "\"rack.url_scheme\": \"http\"",
    ] {
        assert!(env.contains(part), "{env}");
    }
    let body: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut client = server.client();
    for _ in 0..2 {
        let reply = client.request("POST", "/upload", &[], &body).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.body == body, "the upload differs");
    }
    assert_eq!(client.get("/nowhere").unwrap().status, 404);
}

#[test]
fn the_sample_restarts_and_survives_a_crash() {
    let dir = sample();
    let server = Server::start(dir.path(), &[]);
    let first = pid_of(&server);
    assert_eq!(server.client().request("POST", "/crash", &[], b"").unwrap().status, 502);
    let second = pid_of(&server);
    assert_ne!(first, second);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("another process", || (pid_of(&server) != second).then_some(()));
}

#[test]
fn a_path_reaches_the_application_as_the_client_wrote_it() {
    let dir =
        rack("[200, {}, [env.values_at('SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING').join(' ')]]");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/a%2Fb%20c/?d=%20"), " /a%2Fb%20c/ d=%20");
}

#[test]
fn an_application_that_cannot_boot_shows_rubys_message() {
    let dir = app("config.ru", "require 'no_such_library'\n");
    let parts = ["config.ru:1:in", "no_such_library (LoadError)"];
    fails(dir.path(), &[], 5, &parts);
}

#[test]
fn a_missing_interpreter_names_its_option() {
    fails(sample().path(), &["--ruby", "/no/such/ruby"], 5, &["/no/such/ruby", "--ruby"]);
}

#[test]
fn a_request_that_takes_too_long_leaves_a_backtrace() {
    let dir = rack("env['PATH_INFO'] == '/stuck' ? sleep : [200, {}, [Process.pid.to_s]]");
    let server = Server::start(dir.path(), &["--max-request-time", "1"]);
    assert_eq!(server.client().get("/stuck").unwrap().status, 504);
    server.logs("config.ru:2:in `sleep'");
    server.get("/");
}

#[test]
fn early_hints_reach_clients_that_know_them() {
    let dir = rack(
        "env['rack.early_hints']&.call('link' => '</a.css>; rel=preload'); [200, {}, ['answer']]",
    );
    let ask = |server: &Server, version: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let server = Server::start(dir.path(), &["--early-hints"]);
    // The second request comes over the connection to the process that the first one has left.
    for _ in 0..2 {
        let answer = ask(&server, "1.1");
        let rest = answer
            .strip_prefix("HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n")
            .expect(&answer);
        assert!(rest.starts_with("HTTP/1.1 200 OK\r\n") && rest.ends_with("answer"), "{rest}");
        assert!(!ask(&server, "1.0").contains("103"));
    }
    let without = Server::start(dir.path(), &[]);
    assert!(!ask(&without, "1.1").contains("103"));
}

/// Applications with long polling set the level, and take the connections of their clients over.
#[test]
fn an_application_that_advertises_any_concurrency_takes_requests_beside_its_hijacked_connections() {
    let dir = app(
        "config.ru",
        "PhusionPassenger.advertised_concurrency_level = 0\n\
         sockets = []\n\
         run(lambda do |env|\n\
         \x20 if env['PATH_INFO'] == '/wait'\n\
         \x20   sockets << env['rack.hijack'].call\n\
         \x20 elsif env['PATH_INFO'] == '/send'\n\
         \x20   sockets.each { |io| io.write(\"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nsent\"); io.close }\n\
         \x20 end\n\
         \x20 [200, {}, [sockets.size.to_s]]\n\
         end)\n",
    );
    for method in ["direct", "smart"] {
        let server = Server::start(dir.path(), &["--max-pool-size", "1", "--spawn-method", method]);
        let mut waiting: Vec<_> = (0..5).map(|_| server.client()).collect();
        for client in &mut waiting {
            client.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        eventually("the process has the connections", || (server.get("/") == "5").then_some(()));
        let process = &server.status()["groups"][0]["processes"][0];
        assert!(process["sessions"].as_u64().unwrap() >= 5, "{process}");
        assert_eq!(server.get("/send"), "5");
        for client in &mut waiting {
            assert_eq!(client.reply("GET").unwrap().text(), "sent");
        }
        assert_eq!(server.pids().len(), 1);
    }
}

/// An application that takes the connection over, and echoes what comes. A client that sends `end` ends it.
const ECHO: &str = "\
    if env['HTTP_UPGRADE'] == 'echo' && env['HTTP_CONNECTION'] == 'Upgrade'\n\
      io = env['rack.hijack'].call\n\
      io.write(\"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\nX-A: b\\r\\n\\r\\nhello\")\n\
      Thread.new do\n\
        while (part = io.readpartial(100)) != 'end'\n\
          io.write(\"echo #{part}\")\n\
        end\n\
      rescue EOFError\n\
        io.write('bye')\n\
      ensure\n\
        io.close\n\
      end\n\
      next [-1, {}, []]\n\
    end\n\
    [200, {}, [env.key?('HTTP_UPGRADE').to_s, ' ', env['rack.input'].read]]";

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: echo\r\n";

#[test]
fn a_hijacked_connection_carries_another_protocol_and_no_further_request() {
    let dir = rack(ECHO);
    for method in ["direct", "smart"] {
        let server = Server::start(dir.path(), &["--spawn-method", method, "--max-pool-size", "1"]);
        for ends_by in ["end", "half-close", "reset"] {
            let mut client = server.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n").as_bytes()).unwrap();
            let head = client.head().unwrap();
            assert_eq!(
                (head.status, head.header("upgrade"), head.header("x-a")),
                (101, Some("echo"), Some("b"))
            );
            client.expect_bytes(b"hello").unwrap();
            for text in ["one", "two"] {
                client.send(text.as_bytes()).unwrap();
                client.expect_bytes(format!("echo {text}").as_bytes()).unwrap();
            }
            match ends_by {
                "end" => client.send(b"end").unwrap(),
                "half-close" => {
                    client.half_close().unwrap();
                    client.expect_bytes(b"bye").unwrap();
                }
                _ => continue,
            }
            client.expect_end().unwrap();
        }
        // The process serves the next client, who gets no byte of the others.
        for _ in 0..3 {
            let reply = server.client().request("POST", "/", &[], b"body").unwrap();
            assert_eq!((reply.status, &*reply.text()), (200, "false body"));
        }
        let log = server.log();
        assert!(!log.contains("Error") && !log.contains("error"), "{log}");
    }
}

#[test]
fn a_process_without_a_wish_to_switch_cannot() {
    let dir = rack(
        "io = env['rack.hijack'].call\n\
         io.write(\"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\n\\r\\npoison\")\n\
         io.close\n[-1, {}, []]",
    );
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    for body in [&b""[..], b"with a body"] {
        let fields = match body {
            b"" => &[][..],
            _ => &[("Connection", "Upgrade"), ("Upgrade", "echo")],
        };
        let reply = client.request("POST", "/", fields, body).unwrap();
        assert!(reply.status == 502 && !reply.text().contains("poison"), "{}", reply.describe());
    }
}

/// As Faye's gem does it, which Debian has, and Action Cable of Rails.
#[test]
fn a_websocket_of_faye_passes() {
    let dir = app(
        "config.ru",
        "require 'faye/websocket'\n\
         PhusionPassenger.advertised_concurrency_level = 0\n\
         run(lambda do |env|\n\
           next [200, {}, ['plain']] unless Faye::WebSocket.websocket?(env)\n\
           ws = Faye::WebSocket.new(env)\n\
           ws.on(:message) { |event| ws.send(event.data) }\n\
           ws.rack_response\n\
         end)\n",
    );
    let server = Server::start(dir.path(), &[]);
    let mut sockets: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut sockets {
        websocket::open(client, "/").unwrap();
        websocket::echo(client, b"hello").unwrap();
    }
    assert_eq!(server.get("/"), "plain");
    for client in &mut sockets {
        websocket::echo(client, b"still there").unwrap();
        // A close frame, which comes back.
        client.send(&[&[0x88, 0x82], &b"mask"[..], &[0x03 ^ b'm', 0xe8 ^ b'a']].concat()).unwrap();
        client.expect_bytes(&[0x88, 2, 0x03, 0xe8]).unwrap();
        client.expect_end().unwrap();
    }
}
