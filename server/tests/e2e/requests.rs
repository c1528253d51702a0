//! Requests as they arrive: several at once, in parts, and unusual ones.

use crate::server::{Server, app, node, wsgi};
use std::time::Duration;
use tempfile::TempDir;

fn apps() -> [TempDir; 2] {
    [
        wsgi(
            "",
            "body = environ['wsgi.input'].read().decode()\n\
             return answer(environ['REQUEST_METHOD'] + ' ' + environ['REQUEST_URI'] + ' ' + body)",
        ),
        node(
            "http.createServer((q, s) => { let body = ''; q.on('data', (d) => body += d);\n\
               q.on('end', () => s.end(`${q.method} ${q.url} ${body}`)); }).listen(0);",
        ),
    ]
}

#[test]
fn requests_that_arrive_at_once_are_answered_in_order() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let mut all = Vec::new();
        for i in 0..50 {
            all.extend_from_slice(format!("GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            all.extend_from_slice(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        }
        client.send(&all).unwrap();
        for i in 0..50 {
            assert_eq!(client.reply("GET").unwrap().text(), format!("GET /{i} "));
            assert_eq!(client.reply("POST").unwrap().text(), "POST /p abc");
        }
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let requests: [&[u8]; 2] = [
            b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;e=1\r\nc\r\n0\r\nT: 1\r\n\r\n",
            b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        ];
        for request in requests {
            for byte in request {
                client.send(&[*byte]).unwrap();
                std::thread::sleep(Duration::from_micros(500));
            }
            assert_eq!(client.reply("POST").unwrap().text(), "POST /x abc");
        }
    }
}

#[test]
fn unusual_targets_and_methods_reach_the_application() {
    // Node itself refuses methods that it does not know.
    let targets = [("GET", "/<a>\"b\"?c=<d>"), ("PURGE", "/x"), ("PING", "/")];
    for (dir, known) in apps().iter().zip([3, 2]) {
        let server = Server::start(dir.path(), &[]);
        for (method, target) in targets.into_iter().take(known) {
            let reply = server.client().request(method, target, &[], b"").unwrap();
            assert_eq!((reply.status, reply.text()), (200, format!("{method} {target} ")));
        }
        let coding = [("Transfer-Encoding", "gzip, chunked")];
        let reply = server.client().request("POST", "/", &coding, b"").unwrap();
        assert_eq!(reply.status, 501);
    }
}

#[test]
fn a_client_that_asks_before_its_body_is_told_to_continue() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let head =
            "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        for _ in 0..2 {
            client.send(head.as_bytes()).unwrap();
            assert_eq!(client.head().unwrap().status, 100);
            client.send(b"abc").unwrap();
            assert_eq!(client.reply("POST").unwrap().text(), "POST /x abc");
        }
    }
}

#[test]
fn a_body_larger_than_the_buffers_is_streamed() {
    for (memory, file) in [("1000", "20000"), ("0", "0")] {
        let options = ["--buffer-request", memory, "--max-buffered-request", file];
        for dir in apps() {
            let server = Server::start(dir.path(), &options);
            let body = vec![b'x'; 1 << 20];
            for _ in 0..3 {
                let reply = server.client().request("PUT", "/x", &[], &body).unwrap();
                assert_eq!((reply.status, reply.body.len()), (200, "PUT /x ".len() + body.len()));
            }
        }
    }
}

#[test]
fn a_thousand_fields_of_sixty_bytes_pass_both_ways_in_each_type() {
    let asgi = "async def app(scope, receive, send):
    if scope['type'] != 'http': return
    count = int(scope['query_string'])
    fields = [(b'x-%d' % i, b'v' * 50) for i in range(count)]
    await send({'type': 'http.response.start', 'status': 200, 'headers': fields})
    found = sum(name.startswith(b'x-') for name, _ in scope['headers'])
    await send({'type': 'http.response.body', 'body': str(found).encode()})
";
    let wsgi = "def application(environ, start_response):
    count = int(environ['QUERY_STRING'])
    start_response('200 OK', [('X-%d' % i, 'v' * 50) for i in range(count)])
    return [str(sum(name.startswith('HTTP_X_') for name in environ)).encode()]
";
    let node = "require('http').createServer((q, s) => {
    for (let i = 0; i < +q.url.split('?')[1]; i++) s.setHeader(`X-${i}`, 'v'.repeat(50));
    s.end(String(Object.keys(q.headers).filter((name) => name.startsWith('x-')).length));
}).listen(0);
";
    let rack = "run(lambda do |env|
  fields = (0...env['QUERY_STRING'].to_i).to_h { |i| [\"x-#{i}\", 'v' * 50] }
  [200, fields, [env.keys.count { |name| name.start_with?('HTTP_X_') }.to_s]]
end)
";
    for (file, text) in
        [("main.py", asgi), ("passenger_wsgi.py", wsgi), ("app.js", node), ("config.ru", rack)]
    {
        let dir = app(file, text);
        let server = Server::start(dir.path(), &[]);
        for (sent, wanted) in [(1000, 0), (0, 1000), (1000, 1000)] {
            let fields: String =
                (0..sent).map(|i| format!("X-{i}: {}\r\n", "v".repeat(50))).collect();
            let mut client = server.client();
            let request = format!("GET /?{wanted} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            client.send(request.as_bytes()).unwrap();
            let reply = client.reply("GET").unwrap();
            assert_eq!((reply.status, reply.text()), (200, sent.to_string()), "{file}");
            let found = (0..wanted).filter(|i| reply.header(&format!("x-{i}")).is_some());
            assert_eq!(found.count(), wanted, "{file}");
        }
        let many = "X: y\r\n".repeat(1100);
        let mut client = server.client();
        client.send(format!("GET /?0 HTTP/1.1\r\nHost: a\r\n{many}\r\n").as_bytes()).unwrap();
        assert_eq!(client.reply("GET").unwrap().status, 431, "{file}");
    }
}
