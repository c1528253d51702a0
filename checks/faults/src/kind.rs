//! The servers that are judged.

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cabrank,
    Gunicorn,
    Uwsgi,
    Puma,
    Passenger,
}

/// Returns the server that stands beside cabrank under this name.
pub(crate) fn by_name(name: &str) -> Result<Kind, String> {
    match name {
        "gunicorn" => Ok(Kind::Gunicorn),
        "uwsgi" => Ok(Kind::Uwsgi),
        "puma" => Ok(Kind::Puma),
        "passenger" => Ok(Kind::Passenger),
        _ => Err(format!("--against takes gunicorn, uwsgi, puma or passenger, not {name}")),
    }
}
