//! The kinds of application that are served.

/// The kind of application that is served, by three processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// A process has one request at a time.
    Wsgi,
    /// A process has any number of requests, and WebSockets.
    Asgi,
    /// A process has one request at a time.
    Rack,
    /// A process has any number of requests.
    Node,
    /// A server of its own, without a loader. A process has any number of requests.
    Generic,
}

impl std::fmt::Display for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            App::Wsgi => "WSGI",
            App::Asgi => "ASGI",
            App::Rack => "Rack",
            App::Node => "Node",
            App::Generic => "Generic",
        })
    }
}

impl App {
    /// Returns the options that `cabrank start` needs to serve it.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            App::Generic => &["--start-command=exec python3 server.py"],
            App::Wsgi | App::Asgi | App::Rack | App::Node => &[],
        }
    }
}

pub(crate) const BOTH: &[App] = &[App::Wsgi, App::Node];
pub(crate) const WSGI: &[App] = &[App::Wsgi];
