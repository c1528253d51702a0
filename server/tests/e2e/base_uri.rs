//! An application below a path of the host (`--base-uri`): each type finds the path, and the server refuses all others.

use crate::server::{Server, app, node, wsgi};
use crate::wrong_input::fails;
use cabrank_checks_harness::websocket;
use std::fs;
use tempfile::TempDir;

const OPTIONS: &[&str] = &["--base-uri", "/blog/"];

/// The variables that name the path.
const NAMES: &str = "'PASSENGER_BASE_URI', 'RACK_BASE_URI', 'RAILS_RELATIVE_URL_ROOT'";
const OF_PROCESS: &str = "/blog /blog /blog";

/// Serves the application, and asks it for each path. An expected text that is empty stands for 404.
#[track_caller]
fn asks(dir: &TempDir, options: &[&str], expected: &[(&str, &str)]) -> Server {
    let server = Server::start(dir.path(), options);
    let mut client = server.client();
    for (path, text) in expected {
        let reply = client.get(path).unwrap();
        match *text {
            "" => assert!(
                reply.status == 404 && reply.text().contains("application is served at this path"),
                "{path}"
            ),
            text => assert_eq!((reply.status, &*reply.text()), (200, text), "{path}"),
        }
    }
    server
}

/// Paths that only look as if they were below `/blog`. The connection stays for the next request.
const OUTSIDE: &[(&str, &str)] = &[
    ("/", ""),
    ("/blogx", ""),
    ("/blog%2fx", ""),
    ("/%62log/x", ""),
    ("//blog/x", ""),
    ("/x/../blog/", ""),
    ("/blog/../x", ""),
    ("/blog/%2e%2e/x", ""),
    ("/blog/..%2fx", ""),
];

#[test]
fn a_wsgi_application_finds_its_path_in_script_name() {
    let dir = wsgi(
        "from wsgiref.util import request_uri",
        &format!(
            "names = 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_URI'\n\
             if path == '/process':\n    return answer(' '.join(os.environ.get(n, '-') for n in ({NAMES})))\n\
             if path == '/url':\n    return answer(request_uri(environ))\n\
             return answer('|'.join(environ[name] for name in names))"
        ),
    );
    let inside = [
        ("/blog", "/blog|||/blog"),
        ("/blog/", "/blog|/||/blog/"),
        ("/blog?a=/../", "/blog||a=/../|/blog?a=/../"),
        ("/blog/a%20b/../c", "/blog|/a b/../c||/blog/a%20b/../c"),
        ("http://h/blog/x", "/blog|/x||/blog/x"),
        ("/blog/process", OF_PROCESS),
        ("/blog/url", "http://localhost/blog/url"),
    ];
    asks(&dir, OPTIONS, &[&inside[..], OUTSIDE].concat());
    asks(&dir, &["--base-uri", "/"], &[("/blog/x", "|/blog/x||/blog/x"), ("/process", "- - -")]);
    fs::write(dir.path().join("cabrank.toml"), "base_uri = '/a/b'\n").unwrap();
    asks(&dir, &[], &[("/a/b/c", "/a/b|/c||/a/b/c"), ("/a/bc", ""), ("/a", "")]);
}

#[test]
fn a_rack_application_finds_its_path_in_script_name() {
    let dir = app(
        "config.ru",
        &format!(
            "run(lambda do |env|\n\
             next [200, {{}}, [ENV.values_at({NAMES}).join(' ')]] if env['PATH_INFO'] == '/process'\n\
             [200, {{}}, [env.values_at('SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_URI').join('|')]]\n\
             end)\n"
        ),
    );
    let inside = [
        ("/blog", "/blog|||/blog"),
        ("/blog/", "/blog|/||/blog/"),
        ("/blog/a%20b?c", "/blog|/a%20b|c|/blog/a%20b?c"),
        ("/blog/process", OF_PROCESS),
    ];
    for method in ["direct", "smart"] {
        let options = [OPTIONS, &["--spawn-method", method]].concat();
        asks(&dir, &options, &[&inside[..], OUTSIDE].concat());
    }
}

#[test]
fn an_asgi_application_finds_its_path_in_root_path() {
    let dir = app(
        "asgi.py",
        &format!(
            "import os\n\
             async def application(scope, receive, send):\n    \
                 if scope['type'] == 'lifespan':\n        raise ValueError\n    \
                 if scope['type'] == 'websocket':\n        \
                     await receive()\n        \
                     await send({{'type': 'websocket.accept' if scope['root_path'] == '/blog' else 'websocket.close'}})\n        \
                     while (message := await receive())['type'] == 'websocket.receive':\n            \
                         await send({{'type': 'websocket.send', 'text': message['text']}})\n        \
                     return\n    \
                 text = '|'.join((scope['root_path'], scope['path'], scope['query_string'].decode()))\n    \
                 if scope['path'] == '/blog/process':\n        \
                     text = ' '.join(os.environ.get(n, '-') for n in ({NAMES}))\n    \
                 await send({{'type': 'http.response.start', 'status': 200}})\n    \
                 await send({{'type': 'http.response.body', 'body': text.encode()}})\n"
        ),
    );
    let inside = [
        ("/blog", "/blog|/blog|"),
        ("/blog/", "/blog|/blog/|"),
        ("/blog/a%20b?c", "/blog|/blog/a b|c"),
        ("/blog/process", OF_PROCESS),
    ];
    let server = asks(&dir, OPTIONS, &[&inside[..], OUTSIDE].concat());
    let mut client = server.client();
    websocket::open(&mut client, "/blog/ws").unwrap();
    websocket::echo(&mut client, b"hello").unwrap();
    asks(&dir, &[], &[("/blog/x", "|/blog/x|")]);
}

/// As with Passenger: the application mounts its routes itself, as `app.use(process.env.PASSENGER_BASE_URI, …)` of Express.
#[test]
fn a_node_application_gets_the_whole_path_and_finds_its_own_in_a_variable() {
    let dir = node(&format!(
        "const names = [{NAMES}];\n\
         http.createServer((q, s) => s.end([q.url, q.socket.remoteAddress, ...names.map((n) => process.env[n])].join(' '))).listen(0);"
    ));
    let inside = [
        ("/blog", "/blog 127.0.0.1 /blog /blog /blog"),
        ("/blog/a%20b?c", "/blog/a%20b?c 127.0.0.1 /blog /blog /blog"),
    ];
    asks(&dir, OPTIONS, &[&inside[..], OUTSIDE].concat());
}

#[test]
fn a_request_outside_is_refused_with_its_body_and_the_connection_stays() {
    let dir = wsgi("", "return answer(environ['wsgi.input'].read())");
    let server = Server::start(dir.path(), OPTIONS);
    let mut client = server.client();
    for (path, status) in [("/x", 404), ("/blog/x", 200), ("/blog/../x", 404), ("/blog", 200)] {
        let reply = client.request("POST", path, &[], b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(reply.status, status, "{path}");
    }
    server.logs("a request outside of /blog (--base-uri) gets 404");
    assert_eq!(server.log().matches("outside of /blog").count(), 1);
}

#[test]
fn a_path_that_no_request_has_is_a_wrong_option() {
    let dir = wsgi("", "return answer('')");
    for bad in ["blog", "/a//b", "/a%20b", "/.."] {
        fails(dir.path(), &["--base-uri", bad], 2, &["--base-uri", "such as /blog"]);
    }
}
