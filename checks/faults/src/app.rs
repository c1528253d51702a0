//! The kinds of application that are served.

/// The kind of application that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Three processes, each with one request at a time.
    Wsgi,
    /// Three processes, each with any number of requests.
    Node,
}

impl std::fmt::Display for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == App::Wsgi { "WSGI" } else { "Node" })
    }
}

pub(crate) const BOTH: &[App] = &[App::Wsgi, App::Node];
pub(crate) const WSGI: &[App] = &[App::Wsgi];
