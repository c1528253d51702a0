//! The origin of a request, as each type of application sees it: with and without a trusted proxy.
//!
//! Each test asks one application for all rows, and `docs/http.md` shows the same rows.

use crate::server::{LONG, Server, Signal, app, node, wsgi};
use cabrank_checks_harness::http::{Client, Reply, scgi_head};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use tempfile::TempDir;

/// The types of applications, as the columns name them.
const TYPES: [&str; 5] = ["Rack", "WSGI", "ASGI", "Node", "a command"];
const PLAIN: &str = "Host: shop.example\r\n";
const FIELDS: &str = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n\
     Forwarded: for=203.0.113.7;proto=https\r\nX-Real-IP: 203.0.113.7\r\nHost: shop.example\r\n\
     X-Forwarded-Host: www.example\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Prefix: /shop\r\nX_Forwarded_For: 6.6.6.6\r\n";

/// The rows of a table: what a program finds, and the tests that show more of it.
const ROWS: [(&str, &str); 11] = [
    (
        "client's address",
        "`proxies::only_a_trusted_proxy_says_who_the_client_is`, `test_node::test_the_address_of_the_client`, `test_asgi::test_the_scope`",
    ),
    ("client's port", "`pairs_tests::a_trusted_proxy_gives_scheme_and_address`"),
    (
        "scheme",
        "`origin_tests::a_trusted_proxy_gives_address_and_scheme`, `test_node::test_the_scheme_of_the_client`",
    ),
    (
        "X-Forwarded-For",
        "`http_tests::an_application_sees_the_fields_of_proxies_only_from_proxies`, \
         `http_tests::a_loader_gets_the_fields_of_a_trusted_proxy_as_they_came_and_those_of_another_client_not_at_all`",
    ),
    ("X-Forwarded-Proto", "`origin_tests::a_client_cannot_forge_its_origin`"),
    ("Forwarded", "`origin_tests::forwarded_is_read_if_the_other_fields_are_missing`"),
    ("X-Real-IP", ""),
    ("Host", "`http_tests::an_application_gets_the_request_without_hop_by_hop_fields`"),
    ("X-Forwarded-Host", "`pairs_tests::deceptive_fields_are_left_out`"),
    ("X-Forwarded-Port", ""),
    ("X-Forwarded-Prefix", ""),
];

/// A sender, and what each type gets.
struct Table {
    title: &'static str,
    about: &'static str,
    options: &'static [&'static str],
    over: Over,
    fields: &'static str,
    cells: [[&'static str; 5]; 11],
}

/// How the client reaches the server.
#[derive(Clone, Copy)]
enum Over {
    Tcp,
    /// By `--socket`.
    Unix,
    /// By `--scgi-socket`, through a web server.
    Scgi,
}

/// The address and port of the connection's other end.
const CLIENT: &str = "the client's";
const SERVER: &str = "the server's";
const NO: &str = "–";

const TABLES: [Table; 5] = [
    Table {
        title: "A client that sends no field of proxies",
        about: "No loader gets a field that the client has not sent.",
        options: &[],
        over: Over::Tcp,
        fields: PLAIN,
        cells: [
            [CLIENT, CLIENT, CLIENT, CLIENT, SERVER],
            [CLIENT, CLIENT, CLIENT, CLIENT, SERVER],
            ["http"; 5],
            [NO, NO, NO, NO, "127.0.0.1"],
            [NO, NO, NO, NO, "http"],
            [NO; 5],
            [NO; 5],
            ["shop.example"; 5],
            [NO; 5],
            [NO; 5],
            [NO; 5],
        ],
    },
    Table {
        title: "A client that is no trusted proxy, and sends all of them",
        about: "`--trusted-proxies none`. The log names the option once.",
        options: &["--trusted-proxies", "none"],
        over: Over::Tcp,
        fields: FIELDS,
        cells: [
            [CLIENT, CLIENT, CLIENT, CLIENT, SERVER],
            [CLIENT, CLIENT, CLIENT, CLIENT, SERVER],
            ["http"; 5],
            ["203.0.113.7", "203.0.113.7", NO, NO, "203.0.113.7, 127.0.0.1"],
            [NO, NO, NO, NO, "http"],
            [NO; 5],
            ["203.0.113.7"; 5],
            ["shop.example"; 5],
            [NO; 5],
            [NO; 5],
            [NO; 5],
        ],
    },
    Table {
        title: "A trusted proxy that sends all of them",
        about: "The proxy has the address 127.0.0.1, and its client 203.0.113.7.",
        options: &[],
        over: Over::Tcp,
        fields: FIELDS,
        cells: [
            ["203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", SERVER],
            [NO, NO, "0", "0", SERVER],
            ["https"; 5],
            ["203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7, 127.0.0.1"],
            ["https"; 5],
            ["for=203.0.113.7;proto=https"; 5],
            ["203.0.113.7"; 5],
            ["shop.example"; 5],
            ["www.example"; 5],
            ["443"; 5],
            ["/shop"; 5],
        ],
    },
    Table {
        title: "A client over a Unix socket that sends no field of proxies",
        about: "A Unix socket gives no address: its client counts as one of 127.0.0.1, with an unknown port. A proxy there is \
                trusted as one of the loopback is, and its client looks as in the table above. `SERVER_PORT` is 80.",
        options: &["--socket", "origins.sock"],
        over: Over::Unix,
        fields: PLAIN,
        cells: [
            ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", SERVER],
            [NO, NO, "0", "0", SERVER],
            ["http"; 5],
            [NO, NO, NO, NO, "127.0.0.1"],
            [NO, NO, NO, NO, "http"],
            [NO; 5],
            [NO; 5],
            ["shop.example"; 5],
            [NO; 5],
            [NO; 5],
            [NO; 5],
        ],
    },
    Table {
        title: "A client of a web server that speaks SCGI, and sends all of them",
        about: "The web server reports the client 198.51.100.7 by `REMOTE_ADDR`, and TLS by `HTTPS`. It is trusted as a proxy over `--socket` is. Its client is none.",
        options: &["--scgi-socket", "origins.sock"],
        over: Over::Scgi,
        fields: FIELDS,
        cells: [
            ["198.51.100.7", "198.51.100.7", "198.51.100.7", "198.51.100.7", SERVER],
            ["4711", "4711", "4711", "4711", SERVER],
            ["https"; 5],
            ["203.0.113.7", "203.0.113.7", NO, NO, "203.0.113.7, 198.51.100.7"],
            [NO, NO, NO, NO, "https"],
            [NO; 5],
            ["203.0.113.7"; 5],
            ["shop.example"; 5],
            [NO; 5],
            [NO; 5],
            [NO; 5],
        ],
    },
];

/// Writes an application that answers with lines `ROW=VALUE`, and returns it with the options that start it.
fn write(kind: &str) -> (TempDir, Vec<&'static str>) {
    const CGI: &str = "names = ['X-Forwarded-For', 'X-Forwarded-Proto', 'Forwarded', 'X-Real-IP', 'Host', 'X-Forwarded-Host', \
         'X-Forwarded-Port', 'X-Forwarded-Prefix']\n";
    let python = |head: &str| {
        let list = "\"client's address=%s\\nclient's port=%s\\nscheme=%s\\n\" % tuple(first) + \
                    ''.join(f'{name}={get(name)}\\n' for name in names)";
        format!("{CGI}{head}\n\ndef lines(first, get):\n    return {list}\n")
    };
    match kind {
        "Rack" => {
            let code = format!(
                "{CGI}run(lambda do |env|\n  \
                   first = [\"client's address=#{{env['REMOTE_ADDR']}}\", \"client's port=#{{env['REMOTE_PORT'] || '–'}}\", \
                            \"scheme=#{{env['rack.url_scheme']}}\"]\n  \
                   rest = names.map {{ |name| \"#{{name}}=#{{env['HTTP_' + name.upcase.tr('-', '_')] || '–'}}\" }}\n  \
                   [200, {{}}, [(first + rest).join(\"\\n\")]]\nend)\n"
            );
            (app("config.ru", &code), vec![])
        }
        "WSGI" => {
            let body = "first = [environ['REMOTE_ADDR'], environ.get('REMOTE_PORT', '–'), environ['wsgi.url_scheme']]\n\
                        return answer(lines(first, lambda name: environ.get('HTTP_' + name.upper().replace('-', '_'), '–')))";
            (wsgi(&python(""), body), vec![])
        }
        "ASGI" => {
            let code = python("")
                + "\nasync def application(scope, receive, send):\n    \
                     if scope['type'] != 'http': return\n    \
                     headers = {name.decode(): value.decode() for name, value in scope['headers']}\n    \
                     body = lines([*scope['client'], scope['scheme']], lambda name: headers.get(name.lower(), '–'))\n    \
                     await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
                     await send({'type': 'http.response.body', 'body': body.encode()})\n";
            (app("asgi.py", &code), vec![])
        }
        "Node" => {
            let code = "const names = ['X-Forwarded-For', 'X-Forwarded-Proto', 'Forwarded', 'X-Real-IP', 'Host', 'X-Forwarded-Host',\n\
                          'X-Forwarded-Port', 'X-Forwarded-Prefix'];\n\
                        http.createServer(({ socket, headers }, s) => s.end([`client's address=${socket.remoteAddress}`,\n\
                          `client's port=${socket.remotePort}`, `scheme=${socket.encrypted ? 'https' : 'http'}`,\n\
                          ...names.map((name) => `${name}=${headers[name.toLowerCase()] || '–'}`)].join('\\n'))).listen(0);";
            (node(code), vec![])
        }
        _ => {
            let code =
                python("import os\nfrom http.server import BaseHTTPRequestHandler, HTTPServer")
                    + "\nclass Handler(BaseHTTPRequestHandler):\n    \
                     def do_GET(self):\n        \
                         get = lambda name: ', '.join(self.headers.get_all(name, ['–']))\n        \
                         scheme = self.headers.get('X-Forwarded-Proto', 'http')\n        \
                         body = lines([*self.client_address, scheme], get).encode()\n        \
                         self.send_response(200)\n        \
                         self.send_header('Content-Length', str(len(body)))\n        \
                         self.end_headers()\n        \
                         self.wfile.write(body)\n\
                   HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n";
            (app("server.py", &code), vec!["--start-command", "python3 server.py"])
        }
    }
}

/// Sends a request with these fields. Returns the lines of the answer by their names, and the client's own address.
fn ask(server: &Server, fields: &str) -> (HashMap<String, String>, SocketAddr) {
    let mut client = server.client();
    let own = client.stream.get_ref().local_addr().unwrap();
    client.send(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
    let text = client.reply("GET").unwrap().text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    (pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), own)
}

/// As [`ask`], over the Unix socket.
fn ask_socket(dir: &TempDir, fields: &str) -> (HashMap<String, String>, SocketAddr) {
    let mut client = crate::listening::Client::connect(&dir.path().join("origins.sock"));
    let text = client.ask(&format!("GET / HTTP/1.1\r\n{fields}"), b"").text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let found = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (found, ([127, 0, 0, 1], 0).into())
}

/// As [`ask`], as a web server that speaks SCGI. It leaves out names with `_`, as nginx and Apache do.
fn ask_scgi(dir: &TempDir, fields: &str) -> (HashMap<String, String>, SocketAddr) {
    let own = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/"),
        ("REMOTE_ADDR", "198.51.100.7"),
        ("REMOTE_PORT", "4711"),
        ("HTTPS", "on"),
    ];
    let fields = fields.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.filter(|(name, _)| !name.contains('_'));
    let variable = |name: &str| format!("HTTP_{}", name.to_uppercase().replace('-', "_"));
    let fields: Vec<_> = fields.map(|(name, value)| (variable(name), value)).collect();
    let fields = fields.iter().map(|(name, value)| (&**name, *value));
    let mut client = Client::over_unix(&dir.path().join("origins.sock"), LONG).unwrap();
    client.send(&scgi_head(0, own.into_iter().chain(fields))).unwrap();
    let text = Reply::read_cgi(&mut client.stream, "GET").unwrap().text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let found = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (found, ([198, 51, 100, 7], 0).into())
}

/// Asserts the column of a type in each table.
fn check(kind: &str) {
    let column = TYPES.iter().position(|known| *known == kind).unwrap();
    let (dir, start) = write(kind);
    for table in &TABLES {
        let mut server = Server::start(dir.path(), &[&start, table.options].concat());
        let (found, own) = match table.over {
            Over::Tcp => ask(&server, table.fields),
            Over::Unix => ask_socket(&dir, table.fields),
            Over::Scgi => ask_scgi(&dir, table.fields),
        };
        for ((row, _), cells) in ROWS.iter().zip(&table.cells) {
            let value = found.get(*row).unwrap_or_else(|| panic!("{row} is not in {found:?}"));
            let own = match *row {
                "client's port" => own.port().to_string(),
                _ => own.ip().to_string(),
            };
            let is_right = match cells[column] {
                CLIENT => *value == own,
                // All of them have the address of this machine.
                SERVER => *row == "client's address" || *value != own,
                expected => value == expected,
            };
            assert!(is_right, "{kind}, {}, {row}: {value}, not {}", table.title, cells[column]);
        }
        // Lines of the log come later than answers, and all before the end.
        server.signal(Signal::TERM);
        server.ended();
        let warnings = server.log().matches("--trusted-proxies 127.0.0.1").count();
        assert_eq!(warnings, usize::from(table.options.contains(&"none")), "{}", server.log());
    }
}

#[test]
fn rack_gets_the_origins_of_the_table() {
    check("Rack");
}

#[test]
fn wsgi_gets_the_origins_of_the_table() {
    check("WSGI");
}

#[test]
fn asgi_gets_the_origins_of_the_table() {
    check("ASGI");
}

#[test]
fn node_gets_the_origins_of_the_table() {
    check("Node");
}

#[test]
fn a_command_gets_the_origins_of_the_table() {
    check("a command");
}

/// Returns the section of the page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "\n## Origins\n\n\
         Each type of program finds the client, its proxy, and the fields by which proxies report a request, as follows. \
         The [trusted proxies](security.md#proxies) decide.\n\n\
         - *Client's address*, *port*, *scheme*: `REMOTE_ADDR`, `REMOTE_PORT` and the scheme of the URL (Rack, WSGI), `scope[\"client\"]` and \
         `scope[\"scheme\"]` (ASGI), `req.socket.remoteAddress`, `remotePort` and `encrypted` (Node), the other end of the connection and `X-Forwarded-Proto` (a command). They are the \
         server's own word, by a way on which no client can write.\n\
         - A program that starts by a command, and a loader of your own that does not take the origin, speak HTTP themselves. For them the \
         server is a proxy: it appends the address of its own client to `X-Forwarded-For`.\n\
         - A name with `_` in place of `-` never reaches an application as a field of proxies.\n\
         - `X-Real-IP` is an ordinary field: any client can send it.\n\
         - A dash: there is none. The port of a client behind a proxy is unknown, unless `X-Forwarded-For`, `Forwarded` or the PROXY protocol has it.\n\n\
         Each column is asserted as a whole: `origins::rack_gets_the_origins_of_the_table`, `origins::wsgi_gets_the_origins_of_the_table`, \
         `origins::asgi_gets_the_origins_of_the_table`, `origins::node_gets_the_origins_of_the_table`, `origins::a_command_gets_the_origins_of_the_table`.\n",
    );
    for table in &TABLES {
        let _ = write!(
            text,
            "\n### {}\n\n{}\n\n| | {} |\n|---|---|---|---|---|---|\n",
            table.title,
            table.about,
            TYPES.join(" | ")
        );
        for ((row, _), cells) in ROWS.iter().zip(&table.cells) {
            let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
        }
    }
    text.push_str("\n### More tests of a row\n\n| | test |\n|---|---|\n");
    for (row, tests) in ROWS.iter().filter(|(_, tests)| !tests.is_empty()) {
        let _ = writeln!(text, "| {row} | {tests} |");
    }
    text
}
