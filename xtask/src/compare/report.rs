//! The result as a page.

use super::case::{Case, Turn};
use super::kind::Kind;
use super::servers::Server;
use std::fmt::Write;
use std::time::Duration;

const HEAD: &str = "\
# Performance beside other servers

`cargo xtask compare` writes this page. Each server serves the same application, which answers \"hello\", with two
application processes of one thread, over keep-alive connections on the loopback interface. All servers run at the same time and take
turns under the load. Each figure is the median of the rounds.

Absolute figures depend on the machine and on its other work, so the columns are ratios to cabrank in the same run. Less is
better, except for requests per second. The last column has the absolute figures.

- CPU: user and system time of a request, of the server and of the application (the Python, Ruby or Node processes with
  their loader). uWSGI, gunicorn and granian have Python inside the server, so they have one figure.
- Memory: proportional set size of the server's own processes under the load. Of uWSGI, gunicorn and granian it includes the
  application.
- With threads, each of the two processes has 16, and the application sleeps 5 ms before it answers.
- Puma, Unicorn and uvicorn have the application inside the server, too. Unicorn closes each connection after the answer. uvicorn, and
  cabrank for ASGI, run on uvloop.
- Passenger runs with its own HTTP server (`--engine builtin`), and nginx with two workers and kept-alive upstream
  connections where the protocol has them.
";

const FOOT: &str = "
## Where the processor time goes

`perf record` and `strace -c` show this, at 16 connections on 2 cores of a virtual machine.

- The server's own code takes a sixth of the server's time, about 2 µs a request, and libc 4 %. The kernel takes the rest: 82 % for
  WSGI, 78 % for Node.
- A request takes the four system calls that each proxy needs: a read and a write on the connection of the client, and on that of
  the process. None of them fails with EAGAIN. `epoll_wait` adds 0.7 calls a request for WSGI, and less for Node, whose
  processes answer several requests at each wake-up.
- The largest part is waking other processes. For WSGI a fifth of the server's time is the wake-up of the client and of the
  process by its two writes, and a quarter is the change of processes.
- The loader for WSGI takes three system calls (epoll_wait, read, write), and about 4 µs in Python. A process works on one request
  at a time, so it sleeps and wakes for nearly every request.

granian takes less for WSGI because Python runs inside the server: a request passes one connection instead of two, and wakes no
second process. With applications in processes of their own, the two wake-ups of each request remain.

Puma, Unicorn and uvicorn have the application inside the server as well, and take less for the same reason. Puma
serves one connection for a while and lets the others wait, as its p99 shows; here all wait equally long. Unicorn has no keep-alive
connections, slow clients hold its processes, and each page needs a proxy before it.

With threads, the application processes take nearly two thirds of the time: each sleep, read and write gives the interpreter's lock
away and takes it back. Throughput is the same for all, as far as the threads go; granian and Puma spend less for the reason above.

nginx as a proxy reads and writes the same two connections. Even a server whose own code took no time would take about 0.8 of its
present time, so the wanted 0.7 of nginx's time for Node is out of reach while each request passes the kernel four times.
";

/// Returns the median of one figure.
fn median(case: &Case, figure: fn(&Turn) -> f64) -> f64 {
    let mut all: Vec<f64> = case.turns.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

pub(super) fn write(
    servers: &[Server],
    cases: &[Case],
    missing: &[String],
    rounds: usize,
    turn: Duration,
) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "{HEAD}\nRounds in this run: {rounds}, of {} s for each server and number of connections, on {cores} cores.\n",
        turn.as_secs_f64()
    );
    for missing in missing {
        let _ = writeln!(text, "Did not run: {missing}.");
    }
    for kind in Kind::ALL {
        let mut numbers: Vec<usize> = cases.iter().map(|case| case.connections).collect();
        numbers.dedup();
        for connections in numbers {
            let of_kind: Vec<&Case> = cases
                .iter()
                .filter(|case| case.connections == connections && servers[case.server].kind == kind)
                .collect();
            if !of_kind.is_empty() {
                table(&mut text, servers, kind, connections, &of_kind);
            }
        }
    }
    text.push_str(FOOT);
    text
}

fn table(text: &mut String, servers: &[Server], kind: Kind, connections: usize, cases: &[&Case]) {
    let title = kind.title();
    let _ = writeln!(
        text,
        "\n## {title}, {connections} connections\n\n\
         | server | CPU | CPU of the server alone | requests/s | p50 | p99 | memory | absolute |\n\
         |---|---|---|---|---|---|---|---|"
    );
    let total = |turn: &Turn| turn.server + turn.app;
    let base = cases[0];
    for case in cases {
        let server = &servers[case.server];
        let ratio = |figure| format!("{:.2}", median(case, figure) / median(base, figure));
        let own = |turn: &Turn| turn.server;
        let (alone, cpu) = if server.is_one() {
            ("–".to_owned(), format!("{:.0} µs", median(case, total)))
        } else {
            let app = median(case, |turn| turn.app);
            (ratio(own), format!("{:.1} + {app:.1} µs", median(case, own)))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {alone} | {} | {} | {} | {} | {cpu}, {:.0}/s, {:.2} ms, {:.2} ms, {:.1} MB |",
            server.name,
            ratio(total),
            ratio(|turn| turn.rate),
            ratio(|turn| turn.p50),
            ratio(|turn| turn.p99),
            ratio(|turn| turn.memory),
            median(case, |turn| turn.rate),
            median(case, |turn| turn.p50) / 1e3,
            median(case, |turn| turn.p99) / 1e3,
            median(case, |turn| turn.memory) / (1024.0 * 1024.0),
        );
    }
}
