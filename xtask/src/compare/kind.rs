//! The applications of the comparison.

/// The kind of the application that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wsgi,
    Node,
    Rack,
    Asgi,
    WsgiThreads,
    RackThreads,
}

/// The number of threads of each process in the kinds with threads.
pub(crate) const THREADS: usize = 16;

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Wsgi, Kind::Node, Kind::Rack, Kind::Asgi, Kind::WsgiThreads, Kind::RackThreads];

    /// Returns the name on the command line, which is that of the application's directory, too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Wsgi => "wsgi",
            Kind::Node => "node",
            Kind::Rack => "rack",
            Kind::Asgi => "asgi",
            Kind::WsgiThreads => "wsgi-threads",
            Kind::RackThreads => "rack-threads",
        }
    }

    /// Returns the title of its tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Wsgi => "WSGI",
            Kind::Node => "Node",
            Kind::Rack => "Rack",
            Kind::Asgi => "ASGI",
            Kind::WsgiThreads => "WSGI with threads, 5 ms",
            Kind::RackThreads => "Rack with threads, 5 ms",
        }
    }

    /// Returns the type, by the name that cabrank and Passenger have for it.
    pub(crate) fn app_type(self) -> &'static str {
        match self {
            Kind::Wsgi | Kind::WsgiThreads => "wsgi",
            Kind::Node => "node",
            Kind::Rack | Kind::RackThreads => "rack",
            Kind::Asgi => "asgi",
        }
    }

    pub(crate) fn has_threads(self) -> bool {
        matches!(self, Kind::WsgiThreads | Kind::RackThreads)
    }

    /// Returns the startup file.
    pub(crate) fn file(self) -> &'static str {
        match self.app_type() {
            "wsgi" => "passenger_wsgi.py",
            "rack" => "config.ru",
            "asgi" => "asgi.py",
            _ => "app.js",
        }
    }

    pub(crate) fn source(self) -> &'static str {
        match self {
            Kind::Wsgi => WSGI,
            Kind::Node => NODE,
            Kind::Rack => RACK,
            Kind::Asgi => ASGI,
            Kind::WsgiThreads => WSGI_THREADS,
            Kind::RackThreads => RACK_THREADS,
        }
    }
}

const WSGI: &str = r#"def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]
"#;
const WSGI_THREADS: &str = r#"import time
def application(environ, start_response):
    time.sleep(0.005)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"hello"]
"#;
const ASGI: &str = r#"HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")],
}
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send(HEAD)
        await send({"type": "http.response.body", "body": b"hello"})
"#;
const RACK: &str = r#"run ->(_) { [200, { "content-type" => "text/plain", "content-length" => "5" }, ["hello"]] }
"#;
const RACK_THREADS: &str = r#"run ->(_) do
  sleep(0.005)
  [200, { "content-type" => "text/plain", "content-length" => "5" }, ["hello"]]
end
"#;
const NODE: &str = "const server = require('http').createServer((q, s) => s.end('hello'));\n\
    server.keepAliveTimeout = 60000;\n\
    server.listen(process.env.SOCKET || 3000);\n";
