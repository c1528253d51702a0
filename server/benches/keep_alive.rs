//! Measures the gain of connections to an application that stay open between requests.
//!
//! The benchmark compares kept connections with one connection for each request, for which the
//! application sends `Connection: close`. It prints requests per second, and the processor time per
//! request of server and application. The cases take turns and their medians are compared, because
//! machines are shared and noisy.
//!
//! ```text
//! cargo bench -p cabrank-server --bench keep_alive
//! cargo bench -p cabrank-server --bench keep_alive -- OTHER     beside another build of the server
//! ```

#[allow(dead_code)] // The tests use the rest of this module.
#[path = "../tests/e2e/http.rs"]
mod http;
#[path = "../tests/e2e/needs.rs"]
mod needs;
#[allow(dead_code)] // The tests use the rest of this module.
#[path = "../tests/e2e/server.rs"]
mod server;

use http::Client;
use procfs::process::Process;
use server::{Server, node};
use std::process::Command;
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;
const APP: &str = "http.createServer((q, s) => {\n\
    if (q.url === '/close') s.setHeader('Connection', 'close');\n\
    s.end('hello'); }).listen(0);";

/// One server and the path that the clients request.
struct Case<'a> {
    name: String,
    server: &'a Server,
    app: u32,
    path: &'static str,
    /// Requests per second in each round.
    rates: Vec<f64>,
    server_time: Duration,
    app_time: Duration,
    requests: usize,
}

impl Case<'_> {
    fn round(&mut self, requests: usize) {
        let before = (used(self.server.pid()), used(self.app));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = Client::connect(self.server.address).unwrap();
                    for _ in 0..requests / CLIENTS {
                        let reply = client.get(self.path).unwrap();
                        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
                    }
                });
            }
        });
        self.rates.push(requests as f64 / begun.elapsed().as_secs_f64());
        self.server_time += used(self.server.pid()) - before.0;
        self.app_time += used(self.app) - before.1;
        self.requests += requests;
    }

    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

/// Returns the processor time of a process so far.
fn used(pid: u32) -> Duration {
    let stat = Process::new(pid as i32).unwrap().stat().unwrap();
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Starts a server, by `program` if it is given.
fn start(program: Option<&String>, dir: &std::path::Path) -> Server {
    let options = ["--max-pool-size", "1"];
    let Some(program) = program else { return Server::start(dir, &options) };
    let runtime = tempfile::tempdir().unwrap();
    let own = server::start_command(runtime.path(), dir, &options);
    let mut command = Command::new(program);
    command.args(own.get_args());
    for (name, value) in own.get_envs() {
        value.map(|value| command.env(name, value));
    }
    Server::start_with(command, runtime)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (rounds, requests) =
        if arguments.iter().any(|a| a == "--test") { (1, CLIENTS) } else { (31, 2000) };
    let others = arguments.iter().filter(|a| !a.starts_with("--"));
    let dir = node(APP);
    let programs: Vec<Option<&String>> = std::iter::once(None).chain(others.map(Some)).collect();
    let servers: Vec<Server> = programs.iter().map(|program| start(*program, dir.path())).collect();
    let mut cases = Vec::new();
    for (program, server) in programs.iter().zip(&servers) {
        for (what, path) in [("kept", "/"), ("one for each request", "/close")] {
            let name = program.map_or(what.into(), |program| format!("{what} ({program})"));
            let app = server.pids()[0];
            let (server_time, app_time) = Default::default();
            let rates = Vec::new();
            cases.push(Case { name, server, app, path, rates, server_time, app_time, requests: 0 });
        }
    }
    for _ in 0..rounds {
        for case in &mut cases {
            case.round(requests);
        }
    }
    println!("{CLIENTS} clients, {rounds} rounds of {requests} requests each\n");
    println!("| connections | requests/s | ratio | server, µs | application, µs |");
    println!("|---|---|---|---|---|");
    let first = cases[0].median();
    for case in &cases {
        let of_each = |time: Duration| time.as_secs_f64() * 1e6 / case.requests as f64;
        println!(
            "| {} | {:.0} | {:.2} | {:.0} | {:.0} |",
            case.name,
            case.median(),
            case.median() / first,
            of_each(case.server_time),
            of_each(case.app_time)
        );
    }
}
