//! The removal of an instance directory that a process of the application fills: it delays neither a stop nor a start.

use crate::killed::reaper_of;
use crate::server::{Server, Signal, eventually, is_alive, signal, start_command, wsgi};
use crate::users::runtime;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The request `/flood` begins a daemon that fills the directory of sockets.
fn floods() -> TempDir {
    wsgi(
        "import signal",
        "if path == '/flood':
    backends = next(os.path.dirname(line.split()[-1]) for line in open('/proc/net/unix') if f'.{os.getppid()}.' in line and '/backends/' in line)
    daemon = os.fork()
    if daemon: return answer(daemon)
    os.setsid()
    os.closerange(0, 100)
    count, end = 0, time.time() + 120
    while time.time() < end:
        try:
            count += 1
            os.mkdir(f'{backends}/{count}')
            open(f'{backends}/{count}/x', 'w').close()
        except OSError: pass
    os._exit(0)
return answer('ok')",
    )
}

/// Ends the daemon of an application at the end of a test.
struct Daemon(u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

fn start(dir: &Path, runtime: TempDir, options: &[&str]) -> Server {
    let command = start_command(runtime.path(), dir, options);
    Server::start_with(command, runtime)
}

#[test]
fn a_flood_of_files_delays_no_stop_beyond_its_deadline_or_a_second_signal() {
    for (timeout, signals) in [("2", 1), ("60", 2)] {
        let dir = floods();
        let mut server = start(dir.path(), runtime(), &["--shutdown-timeout", timeout]);
        let daemon = Daemon(server.get("/flood").parse().unwrap());
        let begun = Instant::now();
        server.signal(Signal::TERM);
        if signals == 2 {
            std::thread::sleep(Duration::from_millis(700));
            server.signal(Signal::TERM);
        }
        server.ended();
        let took = begun.elapsed();
        // Before the test can fail: no removal of the directory ends meanwhile.
        drop(daemon);
        assert!(took < Duration::from_secs(5), "{took:?}");
        eventually("the reaper removes the directory", || {
            (fs::read_dir(server.runtime.path()).unwrap().count() == 0).then_some(())
        });
    }
}

#[test]
fn a_flood_of_files_in_a_stale_directory_delays_no_start() {
    let dir = floods();
    let mut first = start(dir.path(), runtime(), &[]);
    let daemon = Daemon(first.get("/flood").parse().unwrap());
    let stale = fs::read_dir(first.runtime.path()).unwrap().next().unwrap().unwrap().path();
    let reaper = reaper_of(&first);
    signal(reaper, Signal::KILL);
    first.signal(Signal::KILL);
    first.ended();
    eventually("the end of the reaper", || (!is_alive(reaper)).then_some(()));
    assert!(stale.exists());
    let runtime = std::mem::replace(&mut first.runtime, tempfile::tempdir().unwrap());
    let begun = Instant::now();
    let second = start(dir.path(), runtime, &[]);
    let took = begun.elapsed();
    drop(daemon);
    assert_eq!(second.get("/"), "ok");
    assert!(took < Duration::from_secs(10), "{took:?}");
    eventually("the removal of the stale directory", || (!stale.exists()).then_some(()));
}
