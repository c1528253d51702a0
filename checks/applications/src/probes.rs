//! The probes, which each application must pass.
//!
//! Every application answers the same paths:
//!
//! | path | answer |
//! |---|---|
//! | `/` | `Hello from NAME, version N`. N is what the file `VERSION` had when the process started |
//! | `/stream` | a first line, then, as soon as the file `go` exists, a last line |
//! | `/upload` | the SHA-256 of the request's body |
//! | `/log` | logs the query by the framework's logger |
//! | `/error` | raises an error with the query in its message |

use crate::browser::Browser;
use crate::catalog::WebSocket;
use crate::install::{shell, write};
use crate::site::Site;
use cabrank_checks_harness::processes::signal;
use cabrank_checks_harness::{Client, Load, Reply, Server, Signal, websocket};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};

/// A probe: a column of the page.
pub(crate) struct Probe {
    pub(crate) column: &'static str,
    pub(crate) about: &'static str,
    pub(crate) environment: &'static str,
    /// Returns whether the probe applies, or why the application fails it.
    pub(crate) run: fn(&Site<'_>) -> Result<bool, String>,
}

/// All probes, in the order of the columns.
pub(crate) const PROBES: &[Probe] = &[
    Probe {
        column: "answers",
        about: "its pages, and those that the framework brings along, such as the admin site of Django with its style sheets.",
        environment: "development",
        run: answers,
    },
    Probe {
        column: "streams",
        about: "the first part of an answer arrives before the application has made the last one.",
        environment: "development",
        run: streams,
    },
    Probe {
        column: "uploads 20 MB",
        about: "a body of 20 MB reaches the application whole, with a Content-Length and in chunks.",
        environment: "development",
        run: uploads,
    },
    Probe {
        column: "logs",
        about: "a line of the framework's logger is in the server's log.",
        environment: "development",
        run: logs,
    },
    Probe {
        column: "error page",
        about: "an exception gives the framework's own page with the status 500 in development, its message is in the log, and the process goes on.",
        environment: "development",
        run: error_page,
    },
    Probe {
        column: "WebSocket",
        about: "a message comes back over a WebSocket. Two clients of Rails chat by Action Cable.",
        environment: "development",
        run: websocket,
    },
    Probe {
        column: "browser",
        about: "a real browser chats with another client by Action Cable's own script. It is skipped, and `–` here, where `chromium` is not installed: `apt-get install chromium`.",
        environment: "development",
        run: browser,
    },
    Probe {
        column: "below a path",
        about: "with `--base-uri /blog`, links, redirects, cookies and assets are below `/blog`, and a request outside gets 404.",
        environment: "development",
        run: below,
    },
    Probe {
        column: "restart",
        about: "`cabrank restart` replaces all processes, and no request fails meanwhile.",
        environment: "development",
        run: restart,
    },
    Probe {
        column: "crash",
        about: "a process is killed (SIGKILL) under load: no request fails, and another process takes its place.",
        environment: "development",
        run: crash,
    },
    Probe {
        column: "rolling deployment",
        about: "in production, under load: new files and `cabrank restart`. No request fails, and the processes are replaced one by one.",
        environment: "production",
        run: rolling_deployment,
    },
];

/// The size of an upload, and the field that says what it is.
const UPLOAD: u32 = 20_000_000;
const BINARY: (&str, &str) = ("Content-Type", "application/octet-stream");

/// Returns an error unless this holds.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn hello(site: &Site<'_>, version: u32) -> String {
    format!("Hello from {}, version {version}", site.application.title)
}

fn answers(site: &Site<'_>) -> Result<bool, String> {
    let text = site.server.get("/")?;
    ensure(text == hello(site, 1), || text)?;
    for (path, expected) in site.application.pages {
        let text = site.server.get(path)?;
        ensure(text.contains(expected), || format!("{path} has no {expected:?}"))?;
    }
    Ok(true)
}

fn streams(site: &Site<'_>) -> Result<bool, String> {
    let go = site.directory.join("go");
    let parts = || -> io::Result<(String, String)> {
        let mut client = site.server.client()?;
        client.ask("/stream")?;
        let head = client.head()?;
        let mut body = BufReader::new(client.body(&head)?);
        let (mut first, mut last) = (String::new(), String::new());
        body.read_line(&mut first)?;
        fs::write(&go, "")?;
        body.read_to_string(&mut last)?;
        Ok((first, last))
    };
    let parts = parts();
    let _ = fs::remove_file(&go);
    let parts = parts.map_err(|e| e.to_string())?;
    ensure(parts == ("first\n".to_owned(), "last\n".to_owned()), || format!("{parts:?}"))?;
    Ok(true)
}

fn uploads(site: &Site<'_>) -> Result<bool, String> {
    let data: Vec<u8> = (0..UPLOAD).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let digest: String = Sha256::digest(&data).iter().map(|byte| format!("{byte:02x}")).collect();
    for is_chunked in [false, true] {
        let reply = site.server.client().and_then(|mut client| match is_chunked {
            false => client.request("POST", "/upload", &[BINARY], &data),
            true => upload_in_chunks(&mut client, &data),
        });
        let reply = reply.map_err(|e| e.to_string())?;
        ensure(reply.status == 200 && reply.text() == digest, || reply.describe())?;
    }
    Ok(true)
}

fn upload_in_chunks(client: &mut Client, data: &[u8]) -> io::Result<Reply> {
    let (name, value) = BINARY;
    let fields = format!("Host: localhost\r\nTransfer-Encoding: chunked\r\n{name}: {value}\r\n");
    client.send(format!("POST /upload HTTP/1.1\r\n{fields}\r\n").as_bytes())?;
    for chunk in data.chunks(100_000) {
        client.send(format!("{:x}\r\n", chunk.len()).as_bytes())?;
        client.send(&[chunk, b"\r\n"].concat())?;
    }
    client.send(b"0\r\n\r\n")?;
    client.reply("POST")
}

fn logs(site: &Site<'_>) -> Result<bool, String> {
    site.server.get("/log?a-word-to-look-for")?;
    let is_logged = || site.server.log().contains("logged a-word-to-look-for").then_some(());
    site.until("line in the log", is_logged)?;
    Ok(true)
}

fn error_page(site: &Site<'_>) -> Result<bool, String> {
    let pids = site.pids()?;
    let mut client = site.server.client().map_err(|e| e.to_string())?;
    let reply = client.request("GET", "/error?by-a-client", &[("Accept", "text/html")], b"");
    let reply = reply.map_err(|e| e.to_string())?;
    let is_own = reply.text().contains(site.application.error_page);
    ensure(reply.status == 500 && is_own, || reply.describe())?;
    let is_logged = || site.server.log().contains("broken on purpose by-a-client").then_some(());
    site.until("error in the log", is_logged)?;
    ensure(site.pids()? == pids, || "the process has ended".to_owned())?;
    Ok(true)
}

fn websocket(site: &Site<'_>) -> Result<bool, String> {
    match site.application.websocket {
        None => return Ok(false),
        Some(WebSocket::Echo(path)) => {
            let mut client = site.server.client().map_err(|e| e.to_string())?;
            websocket::open(&mut client, path)?;
            websocket::echo(&mut client, b"hello")?;
            websocket::echo(&mut client, &[b'x'; 100])?;
        }
        Some(WebSocket::Cable) => chat(site)?,
        Some(WebSocket::Client(script)) => {
            let line = format!("node {script} {}", site.server.address.port());
            let said = shell(site.directory, &[], &[&line])?;
            ensure(said.trim() == "ok", || said)?;
        }
    }
    Ok(true)
}

/// The subscription of a client of Action Cable.
const CHANNEL: &str = r#""identifier":"{\"channel\":\"ChatChannel\"}""#;

/// Serves Action Cable by one process, because its channels are in memory (`async`).
fn cable(site: &Site<'_>) -> Result<Server, String> {
    site.another(&[
        "--environment",
        "development",
        "--force-max-concurrent-requests-per-process",
        "0",
    ])
}

/// Returns a client that has subscribed.
fn subscriber(server: &Server) -> Result<Client, String> {
    let mut client = server.client().map_err(|e| e.to_string())?;
    websocket::open(&mut client, "/cable")?;
    websocket::until(&mut client, "welcome")?;
    websocket::send(&mut client, format!(r#"{{"command":"subscribe",{CHANNEL}}}"#).as_bytes())?;
    websocket::until(&mut client, "confirm_subscription")?;
    Ok(client)
}

/// Sends a short text to all subscribers.
fn say(client: &mut Client, text: &str) -> Result<(), String> {
    let data = format!(r#""data":"{{\"text\":\"{text}\"}}""#);
    websocket::send(client, format!(r#"{{"command":"message",{CHANNEL},{data}}}"#).as_bytes())
}

/// Two clients of Action Cable chat.
fn chat(site: &Site<'_>) -> Result<(), String> {
    let server = cable(site)?;
    let mut clients = [subscriber(&server)?, subscriber(&server)?];
    say(&mut clients[0], "hello")?;
    for client in &mut clients {
        websocket::until(client, r#""text":"hello""#)?;
    }
    let text = server.get("/")?;
    ensure(text == hello(site, 1), || text)
}

/// The page of a browser sends a message as soon as it has subscribed, and shows the messages that it gets.
fn browser(site: &Site<'_>) -> Result<bool, String> {
    if !matches!(site.application.websocket, Some(WebSocket::Cable)) {
        return Ok(false);
    }
    if !Browser::is_installed() {
        eprintln!("{}, browser: skipped: apt-get install chromium", site.application.name);
        return Ok(false);
    }
    let server = cable(site)?;
    let mut client = subscriber(&server)?;
    let mut browser = Browser::open(&format!("http://{}/chat", server.address))?;
    let mut shows = |message: &str| {
        let mut seen = Ok(String::new());
        let is_shown = site.until(message, || {
            seen = browser.text();
            seen.iter().any(|text| text.lines().any(|line| line == message)).then_some(())
        });
        is_shown.map_err(|e| format!("{e}: the page shows {seen:?}"))
    };
    shows("hello from the browser")?;
    websocket::until(&mut client, r#""text":"hello from the browser""#)?;
    say(&mut client, "hello, browser")?;
    shows("hello, browser")?;
    Ok(true)
}

fn below(site: &Site<'_>) -> Result<bool, String> {
    if site.application.below.is_empty() {
        return Ok(false);
    }
    let server = site.another(&["--environment", "development", "--base-uri", "/blog"])?;
    let mut client = server.client().map_err(|e| e.to_string())?;
    let (root, outside) = ([("/blog", "Hello"), ("/blog/", "Hello")], [("/", ""), ("/posts", "")]);
    for (path, expected) in root.iter().chain(site.application.below).chain(&outside) {
        let mut reply = client.get(path).map_err(|e| format!("{path}: {e}"))?;
        // A framework may redirect the path itself to the one with a slash.
        if *path == "/blog" && reply.header("location").is_some_and(|to| to.ends_with("/blog/")) {
            reply = client.get("/blog/").map_err(|e| e.to_string())?;
        }
        let fields = reply.headers.iter().map(|(name, value)| format!("\n{name}: {value}"));
        let text = format!("{}\n\n{}", fields.collect::<String>(), reply.text());
        let is_well = match *expected {
            "" => reply.status == 404 && text.contains("served at this path"),
            part => reply.status < 400 && text.to_lowercase().contains(&part.to_lowercase()),
        };
        ensure(is_well, || format!("{path} has no {expected:?}: {text}"))?;
    }
    Ok(true)
}

/// Starts a load, and waits for its first answers.
fn load(site: &Site<'_>, clients: usize) -> Result<Load, String> {
    let load = Load::start(site.server.address, "/", clients);
    more_answers(site, &load, 8)?;
    Ok(load)
}

/// Waits for so many more answers.
fn more_answers(site: &Site<'_>, load: &Load, number: usize) -> Result<(), String> {
    let enough = load.answered() + number;
    site.until("more answers", || (load.answered() >= enough).then_some(()))
}

fn restart(site: &Site<'_>) -> Result<bool, String> {
    let old = site.pids()?;
    let load = load(site, 2)?;
    site.restart()?;
    site.until("new processes", || site.pids().ok().filter(|pids| pids.is_disjoint(&old)))?;
    more_answers(site, &load, 9)?;
    let seen = load.stop();
    ensure(seen.failed.is_empty(), || format!("{:?}", seen.failed))?;
    Ok(true)
}

fn crash(site: &Site<'_>) -> Result<bool, String> {
    let victim = site.whole("full pool", |_| true)?.into_iter().min().ok_or("no process")?;
    let load = load(site, 2)?;
    signal(victim, Signal::KILL);
    site.whole("another process", |pids| !pids.contains(&victim))?;
    let seen = load.stop();
    ensure(seen.failed.is_empty(), || format!("{:?}", seen.failed))?;
    Ok(true)
}

fn rolling_deployment(site: &Site<'_>) -> Result<bool, String> {
    let version = site.directory.join("VERSION");
    let outcome = deploy(site, || write(&version, "2\n"));
    write(&version, "1\n")?;
    outcome
}

fn deploy(site: &Site<'_>, change: impl Fn() -> Result<(), String>) -> Result<bool, String> {
    let old = site.whole("full pool", |_| true)?;
    let load = load(site, 4)?;
    change()?;
    site.restart()?;
    site.whole("new processes", |pids| pids.is_disjoint(&old))?;
    // A few requests may still be at an old process.
    more_answers(site, &load, 9)?;
    let mut before = load.take();
    more_answers(site, &load, 42)?;
    let after = load.stop();
    before.failed.extend(after.failed);
    ensure(before.failed.is_empty(), || format!("{:?}", before.failed))?;
    let (one, two) = (hello(site, 1), hello(site, 2));
    ensure(before.texts.iter().all(|t| *t == one || *t == two), || format!("{:?}", before.texts))?;
    ensure(after.texts.iter().all(|text| *text == two), || format!("{:?}", after.texts))?;
    Ok(true)
}
