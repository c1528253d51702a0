//! The parser of SCGI, with the heads of real fronts and with others.

use super::*;

const MAX: usize = 64 * 1024;

fn netstring(block: &str) -> Vec<u8> {
    format!("{}:{block},", block.len()).into_bytes()
}

/// Makes a head of variables, behind `CONTENT_LENGTH` and before the rest that each request has.
fn input(length: &str, variables: &[(&str, &str)]) -> Vec<u8> {
    let rest = [("SCGI", "1"), ("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/a?b")];
    let rest = rest.iter().filter(|(name, _)| variables.iter().all(|(given, _)| given != name));
    let all = [("CONTENT_LENGTH", length)];
    let all = all.iter().chain(variables).chain(rest);
    netstring(&all.map(|(name, value)| format!("{name}\0{value}\0")).collect::<String>())
}

#[track_caller]
fn parsed(length: &str, variables: &[(&str, &str)]) -> Head {
    let input = input(length, variables);
    let mut head = Head::default();
    let size = parse(&mut head, &input, MAX).unwrap_or_else(|bad| panic!("{variables:?}: {bad:?}"));
    assert_eq!(size, Some(input.len()));
    head
}

fn refused(input: &[u8]) -> Option<(u16, String)> {
    parse(&mut Head::default(), input, MAX).err().map(|bad| (bad.status, bad.why.into()))
}

fn field<'a>(head: &'a Head, name: &str) -> Option<&'a str> {
    head.field(name).map(|value| std::str::from_utf8(value).unwrap())
}

/// As nginx 1.22 sends it with the parameters of Debian.
const OF_NGINX: &[(&str, &str)] = &[
    ("REQUEST_METHOD", "POST"),
    ("REQUEST_URI", "/blog/a%20b?c"),
    ("QUERY_STRING", "c"),
    ("CONTENT_TYPE", "text/plain"),
    ("DOCUMENT_URI", "/blog/a b"),
    ("SCGI", "1"),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("REQUEST_SCHEME", "https"),
    ("HTTPS", "on"),
    ("REMOTE_ADDR", "2001:db8::7"),
    ("REMOTE_PORT", "4711"),
    ("SERVER_PORT", "8443"),
    ("SERVER_NAME", "shop.example"),
    ("HTTP_HOST", "shop.example"),
    ("HTTP_CONTENT_LENGTH", "3"),
    ("HTTP_CONTENT_TYPE", "text/plain"),
    ("HTTP_X_NAME", "one"),
    ("HTTP_X_NAME", "two"),
    ("HTTP_CONNECTION", "upgrade, X-Hop"),
    ("HTTP_X_HOP", "1"),
    ("HTTP_UPGRADE", "websocket"),
];

#[test]
fn the_head_of_nginx_is_that_of_its_client() {
    let head = parsed("3", OF_NGINX);
    assert_eq!(
        (head.method(), head.target(), head.path()),
        ("POST", &b"/blog/a%20b?c"[..], &b"/blog/a%20b"[..])
    );
    assert_eq!(
        (head.host(), head.version(), head.framing()),
        (&b"shop.example"[..], Version::Http11, RequestFraming::Length(3))
    );
    assert_eq!((head.upgrade(), head.script_name()), (Some(&b"websocket"[..]), &b""[..]));
    let named: Vec<_> = head.fields.iter().filter(|f| !f.is_hop_by_hop).collect();
    let names: Vec<_> = named.iter().map(|f| f.name.text(&head.bytes)).collect();
    assert_eq!(names, ["host", "content-type", "x-name", "x-name", "x-hop"]);
    let peer = head.reported.unwrap();
    assert_eq!(peer.remote, "[2001:db8::7]:4711".parse().unwrap());
    assert_eq!((peer.local.port(), peer.scheme, peer.is_reported), (8443, Scheme::Https, true));
}

#[test]
fn the_path_of_apache_is_no_mount_unless_it_has_a_path_info() {
    let of_apache = [
        ("SCRIPT_FILENAME", "proxy:scgi://a/blog/a"),
        ("REQUEST_URI", "/blog/a"),
        ("proxy-nokeepalive", "1"),
    ];
    let whole = [&of_apache[..], &[("SCRIPT_NAME", "/blog/a")]].concat();
    assert_eq!(parsed("0", &whole).script_name(), b"");
    let parts = [&of_apache[..], &[("SCRIPT_NAME", "/blog"), ("PATH_INFO", "/a")]].concat();
    assert_eq!(parsed("0", &parts).script_name(), b"/blog");
    for (name, mount) in [("/blog", "/blog"), ("/blog/", "/blog"), ("/", ""), ("", "")] {
        let head = parsed("0", &[("REQUEST_URI", "/blog"), ("SCRIPT_NAME", name)]);
        assert_eq!(head.script_name(), mount.as_bytes(), "{name}");
    }
}

#[test]
fn a_length_is_the_fronts_or_the_one_that_the_client_has_announced() {
    let announced = |length| [("HTTP_CONTENT_LENGTH", length)];
    assert_eq!(parsed("0", &[]).framing(), RequestFraming::None);
    assert_eq!(parsed("7", &[]).framing(), RequestFraming::Length(7));
    assert_eq!(parsed("7", &announced("7")).framing(), RequestFraming::Length(7));
    assert_eq!(parsed("0", &announced("8")).framing(), RequestFraming::Length(8));
    assert_eq!(parsed("7", &announced("8")).framing(), RequestFraming::Length(8));
    assert_eq!(parsed("0", &announced("0")).framing(), RequestFraming::Length(0));
    assert_eq!(
        parsed("7", &[("HTTP_TRANSFER_ENCODING", "chunked")]).framing(),
        RequestFraming::Length(7)
    );
    for (given, length) in [("8", "7"), ("7", "0"), ("7", "x"), ("7", "07, 7")] {
        assert!(refused(&input(given, &announced(length))).is_some(), "{given} {length}");
    }
    for given in ["", "-1", "+1", "1 ", "0x1", "99999999999999999999"] {
        assert!(refused(&input(given, &[])).is_some(), "{given:?}");
    }
}

#[test]
fn what_a_front_leaves_to_doubt_is_refused() {
    let long = "x".repeat(MAX);
    for variables in [
        &[("SCGI", "2")][..],
        &[("SCGI", "")],
        &[("CONTENT_LENGTH", "1")],
        &[("REQUEST_METHOD", "")],
        &[("REQUEST_METHOD", "GET /")],
        &[("REQUEST_METHOD", "CONNECT")],
        &[("REQUEST_URI", "")],
        &[("REQUEST_URI", "a")],
        &[("REQUEST_URI", "/a b")],
        &[("REQUEST_URI", "/a\r\nX: y")],
        &[("REQUEST_URI", "/\x7f")],
        &[("REQUEST_URI", "/a"), ("REQUEST_URI", "/b")],
        &[("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_ADDR", "192.0.2.2")],
        &[("HTTP_HOST", "a"), ("HTTP_HOST", "a")],
        &[("HTTP_HOST", "a b")],
        &[("HTTP_", "x")],
        &[("HTTP_X-Y", "x")],
        &[("HTTP_x", "x")],
        &[("HTTP_X:", "x")],
        &[("HTTP_X\r\nY", "x")],
        &[("HTTP_X", "a\r\nY: b")],
        &[("HTTP_X", "a\x01")],
        &[("CONTENT_TYPE", "a"), ("HTTP_CONTENT_TYPE", "b")],
        &[("X", &long)],
    ] {
        assert!(refused(&input("0", variables)).is_some(), "{variables:?}");
    }
    let latin: Vec<u8> = input("0", &[("REQUEST_URI", "/!")]);
    let latin: Vec<u8> = latin.iter().map(|b| if *b == b'!' { 0xe9 } else { *b }).collect();
    assert!(refused(&latin).is_some(), "HTTP/1 refuses it, too");
    assert!(refused(&input("0", &[("X", &long)])).unwrap().0 == 431);
    let many = vec![("HTTP_X", "1"); MAX_FIELDS + 1];
    assert!(refused(&input("0", &many)).unwrap().0 == 431);
    // A field cannot be split from its variable by the same value once more.
    parsed("0", &[("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_ADDR", "192.0.2.1")]);
}

#[test]
fn a_netstring_is_strict() {
    let block = "CONTENT_LENGTH\x000\0SCGI\x001\0REQUEST_METHOD\0GET\0REQUEST_URI\0/\0";
    assert!(parse(&mut Head::default(), &netstring(block), MAX).is_ok());
    let size = block.len();
    for bad in [
        format!("0{size}:{block},"),
        format!("{size} :{block},"),
        format!("+{size}:{block},"),
        format!("{size}:{block};"),
        format!("{}:{block},", size - 1),
        format!(":{block},"),
        "0:,".into(),
        "00000000:".into(),
        "99999999:".into(),
        "GET / HTTP/1.1\r\n\r\n".into(),
        "\r\n".into(),
    ] {
        assert!(refused(bad.as_bytes()).is_some(), "{bad:?}");
    }
    for block in [
        "SCGI\x001\0CONTENT_LENGTH\x000\0REQUEST_METHOD\0GET\0REQUEST_URI\0/\0",
        "CONTENT_LENGTH\x000\0SCGI\x001\0REQUEST_METHOD\0GET\0REQUEST_URI\0/",
        "CONTENT_LENGTH\x000\0SCGI\x001\0REQUEST_METHOD\0GET\0REQUEST_URI\0/\0ODD\0",
        "CONTENT_LENGTH",
        "\0\0",
    ] {
        assert!(refused(&netstring(block)).is_some(), "{block:?}");
    }
    assert_eq!(refused(b"9999999:").unwrap().0, 431, "the length alone decides");
}

#[test]
fn a_part_of_a_head_is_incomplete() {
    let input = input("3", OF_NGINX);
    for end in 0..input.len() {
        assert_eq!(parse(&mut Head::default(), &input[..end], MAX), Ok(None), "{end}");
    }
    let with_body = [&input[..], b"abc"].concat();
    assert_eq!(parse(&mut Head::default(), &with_body, MAX), Ok(Some(input.len())));
}

#[test]
fn a_front_that_reports_no_address_has_a_client_that_nobody_trusts() {
    for (given, address) in [
        ("", "0.0.0.0"),
        ("unix:", "0.0.0.0"),
        ("a", "0.0.0.0"),
        ("127.0.0.1:5", "0.0.0.0"),
        ("127.0.0.1%lo", "0.0.0.0"),
        ("fe80::1%eth0", "fe80::1"),
    ] {
        let peer = parsed("0", &[("REMOTE_ADDR", given), ("HTTPS", "on")]).reported.unwrap();
        assert_eq!(
            (peer.remote.ip(), peer.is_reported),
            (address.parse().unwrap(), true),
            "{given}"
        );
    }
    assert!(parsed("0", &[]).reported.unwrap().remote.ip().is_unspecified());
    for (variables, scheme, port) in [
        (&[("HTTPS", "on")][..], Scheme::Https, 443),
        (&[("REQUEST_SCHEME", "https")], Scheme::Https, 443),
        (&[("HTTPS", "off"), ("SERVER_PORT", "x")], Scheme::Http, 80),
        (&[("HTTPS", "")], Scheme::Http, 80),
    ] {
        let head = parsed("0", &[&[("REMOTE_ADDR", "192.0.2.1")], variables].concat());
        let peer = head.reported.unwrap();
        assert_eq!(
            (peer.scheme, peer.local.port(), peer.remote.port()),
            (scheme, port, 0),
            "{variables:?}"
        );
    }
}

#[test]
fn httpoxy_and_fields_of_one_hop_are_known() {
    let head =
        parsed("0", &[("HTTP_PROXY", "evil"), ("HTTP_TE", "trailers"), ("HTTP_KEEP_ALIVE", "1")]);
    let known: Vec<_> = head.fields.iter().map(|field| field.known).collect();
    assert_eq!(known, [Name::Proxy, Name::Te, Name::KeepAlive]);
    assert_eq!(field(&head, "proxy"), Some("evil"));
}

/// The fronts pass `Connection` of their clients on.
#[test]
fn a_client_removes_no_field_that_the_front_has_set() {
    let fields = [
        ("HTTP_CONNECTION", "X-Front-Says, upgrade"),
        ("HTTP_UPGRADE", "websocket"),
        ("HTTP_X_FRONT_SAYS", "1"),
    ];
    let head = parsed("0", &fields);
    let of_front = head.fields.iter().find(|field| field.name.get(&head.bytes) == b"x-front-says");
    assert!(!of_front.unwrap().is_hop_by_hop);
    assert!(head.upgrade().is_some());
}

#[test]
fn the_version_is_the_clients_and_only_http_1_1_has_an_upgrade() {
    let fields = [("HTTP_CONNECTION", "upgrade"), ("HTTP_UPGRADE", "websocket")];
    for (protocol, version, upgrades) in [
        ("HTTP/1.0", Version::Http10, false),
        ("HTTP/1.1", Version::Http11, true),
        ("HTTP/2.0", Version::Http11, true),
        ("", Version::Http11, true),
    ] {
        let head = parsed("0", &[&fields[..], &[("SERVER_PROTOCOL", protocol)]].concat());
        assert_eq!((head.version(), head.upgrade().is_some()), (version, upgrades), "{protocol}");
    }
    assert_eq!(parsed("0", &fields[1..]).upgrade(), None);
}
