//! The fields of a head: where they are, and which of them the agent knows.
//!
//! A parser classifies each name once. Later code compares one byte instead of a string.

/// A range of bytes in the buffer of a head.
///
/// Heads are at most a mebibyte long, so that 32 bits suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// A field's name, as far as the agent treats it specially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A field that the agent passes on as it is.
    Other,
    Connection,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    Expect,
    Forwarded,
    /// A field by which proxies report scheme, host or path of the original request, except the others here:
    /// `X-Forwarded-Host`, `-Port`, `-Prefix`, `-Ssl` and so on, `X-Url-Scheme`, `Front-End-Https`.
    ForwardedDetail,
    ForwardedFor,
    ForwardedProto,
    Host,
    KeepAlive,
    /// `Proxy`, which as `HTTP_PROXY` would redirect the application's own requests (httpoxy).
    Proxy,
    ProxyAuthenticate,
    ProxyConnection,
    Server,
    Status,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
}

/// One field of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(super) name: Span,
    /// The value without the white space around it.
    pub(super) value: Span,
    pub(super) known: Name,
    /// Whether the field concerns only this connection (RFC 9110, 7.6.1): the agent does not pass it on.
    pub(super) is_hop_by_hop: bool,
    /// Whether an earlier or a later field has the same name.
    pub(super) place: Place,
}

/// The place of a field among those of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No other field has this name.
    Only,
    /// Later fields have the same name.
    First,
    /// An earlier field has the same name.
    Later,
}
