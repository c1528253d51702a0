//! The server under load while its files are edited: no answer is stale, mixed or failed.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A server on a directory of its own, until it is dropped.
struct Server {
    dir: PathBuf,
    address: String,
    process: Child,
}

impl Server {
    /// Starts a server on the directory `site`, into which `write` has written.
    fn start(name: &str, write: impl FnOnce(&Path)) -> Server {
        let dir = std::env::temp_dir().join(format!("reload_server-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        write(&dir);
        let mut process = Command::new(env!("CARGO_BIN_EXE_reload_server"))
            .arg(dir.join("site"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = process.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let address =
            line.trim().strip_prefix("listening on http://").expect("an address").to_owned();
        Server { dir, address, process }
    }
    fn client(&self) -> Client {
        Client(BufReader::new(TcpStream::connect(&self.address).expect("it listens")))
    }
    fn site(&self, file: &str) -> PathBuf {
        self.dir.join("site").join(file)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A connection that is kept alive.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Returns the status and the body.
    fn get(&mut self, path: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("the server reads");
        let (mut status, mut length) = (0, 0);
        for n in 0.. {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("the server answers");
            match line.trim_end().to_ascii_lowercase() {
                line if line.is_empty() => break,
                line if n == 0 => status = line[9..12].parse().expect("a status"),
                line => {
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.parse().expect("a length");
                    }
                }
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("the whole body");
        (status, String::from_utf8(body).expect("UTF-8"))
    }
}

fn write_site(dir: &Path, edit: u64) {
    fs::create_dir_all(dir).expect("a directory");
    fs::write(dir.join("index.html"), format!("{edit} {{{{ greeting }}}}")).expect("written");
    let plugin = format!("return function(visitor) return '{edit}' end");
    fs::write(dir.join("plugin.lua"), plugin).expect("written");
}

/// Replaces both files in one step: `site` is a link to a directory, and a rename replaces the link.
fn edit(dir: &Path, edit: u64) {
    let target = dir.join(format!("site.{edit}"));
    write_site(&target, edit);
    let link = dir.join("new");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    fs::rename(link, dir.join("site")).expect("the link is replaced");
    if let Some(old) = edit.checked_sub(100) {
        let _ = fs::remove_dir_all(dir.join(format!("site.{old}")));
    }
}

#[derive(Default)]
struct Counts {
    answers: u64,
    stale: u64,
    mixed: u64,
    failed: u64,
    slowest: Duration,
    edits: BTreeSet<u64>,
}

#[test]
fn under_load_no_answer_is_stale_mixed_or_failed() {
    const EDITS: u64 = 1000;
    let seconds = std::env::var("RELOAD_SECONDS").map_or(5, |text| text.parse().expect("a number"));
    let server = Server::start("load", |dir| edit(dir, 0));
    let (finished, has_ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let counts = Mutex::new(Counts::default());
    let client = || {
        let mut client = server.client();
        let mut mine = Counts::default();
        while !has_ended.load(SeqCst) {
            let least = finished.load(SeqCst);
            let begun = Instant::now();
            let (status, body) = client.get("/load");
            mine.slowest = mine.slowest.max(begun.elapsed());
            mine.answers += 1;
            let parts = body.split_once(' ').map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>()));
            match (status, parts) {
                (200, Some((Ok(template), Ok(plugin)))) => {
                    mine.mixed += u64::from(template != plugin);
                    mine.stale += u64::from(template.min(plugin) < least);
                    mine.edits.insert(template);
                }
                _ => {
                    mine.failed += 1;
                    eprintln!("{status}: {body}");
                }
            }
        }
        let mut all = counts.lock().expect("no panic under the lock");
        all.answers += mine.answers;
        all.stale += mine.stale;
        all.mixed += mine.mixed;
        all.failed += mine.failed;
        all.slowest = all.slowest.max(mine.slowest);
        all.edits.append(&mut mine.edits);
    };
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(client)));
        let (begun, total) = (Instant::now(), Duration::from_secs(seconds));
        for n in 1..=EDITS {
            edit(&server.dir, n);
            finished.store(n, SeqCst);
            let due = total * u32::try_from(n).expect("few") / u32::try_from(EDITS).expect("few");
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        has_ended.store(true, SeqCst);
    });
    let Counts { answers, stale, mixed, failed, slowest, edits } =
        counts.into_inner().expect("no panic under the lock");
    println!(
        "{seconds} s: {EDITS} edits, {answers} answers of {} edits, the slowest after {slowest:.1?}: \
         {stale} stale, {mixed} mixed, {failed} failed",
        edits.len()
    );
    assert_eq!((stale, mixed, failed), (0, 0, 0));
    assert!(edits.len() > 10, "the server has reloaded");
    assert_eq!(server.client().get("/load"), (200, format!("{EDITS} {EDITS}")));
}

#[test]
fn a_plain_edit_is_seen_by_the_next_request_and_a_mistake_is_shown_until_it_is_mended() {
    let server = Server::start("edit", |dir| write_site(&dir.join("site"), 1));
    let mut client = server.client();
    assert_eq!(client.get("/"), (200, "1 1".to_owned()));
    for edit in ["{{ greeting }} to {{ visitor }}", "{{ greeting }} by {{ visitor }}"] {
        // Both have the same length, and perhaps the same time.
        fs::write(server.site("index.html"), edit).expect("written");
        let expected = edit.replace("{{ greeting }}", "1").replace("{{ visitor }}", "Ada");
        assert_eq!(client.get("/Ada"), (200, expected));
    }
    fs::write(server.site("plugin.lua"), "return function(visitor) return nonsense(")
        .expect("written");
    for _ in 0..2 {
        let (status, error) = client.get("/");
        assert_eq!(status, 500);
        assert!(error.contains("plugin.lua:1"), "{error}");
    }
    assert_eq!(client.get("/cabrank/locks").0, 200);
    fs::write(server.site("plugin.lua"), "return string.upper").expect("written");
    assert_eq!(client.get("/Ada"), (200, "ADA by Ada".to_owned()));
}
