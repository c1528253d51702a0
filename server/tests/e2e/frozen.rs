//! A file system of the instance directory that hangs: requests go on, and a stop ends in time.
//!
//! No signal ends a thread that waits for a frozen file system, and no process with such a thread.

use crate::server::{Server, Signal, eventually, run, start_command, wsgi};
use cabrank_checks_harness::until;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A file system of its own, which can be frozen. `None`: this user, or this machine, has none.
struct Frozen {
    at: TempDir,
    image: TempDir,
}

impl Frozen {
    fn new() -> Option<Frozen> {
        let new = Frozen { at: tempfile::tempdir().unwrap(), image: tempfile::tempdir().unwrap() };
        let image = new.image.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let is_made = tool("mkfs.ext4", &["-q", image.to_str().unwrap()])
            && tool("mount", &["-o", "loop", image.to_str().unwrap(), new.path()]);
        if !is_made {
            println!("skipped: only root can mount a file system, where the machine allows it");
        }
        is_made.then_some(new)
    }
    fn path(&self) -> &str {
        self.at.path().to_str().unwrap()
    }
    fn freeze(&self) {
        assert!(tool("fsfreeze", &["-f", self.path()]));
    }
    /// Freezes it while the server makes a part of its directory again. Returns whether the server waits for that.
    fn freeze_while_it_is_restored(&self, server: &Server) -> bool {
        let instance = fs::read_dir(server.runtime.path()).unwrap().next().unwrap().unwrap();
        for _ in 0..10 {
            let _ = fs::remove_dir(instance.path().join("buffered"));
            self.freeze();
            if until(Duration::from_secs(3), || waits_for_a_file(server.pid())) {
                return true;
            }
            // The server was faster.
            self.thaw();
        }
        false
    }
    fn thaw(&self) {
        tool("fsfreeze", &["-u", self.path()]);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        tool("umount", &["-l", self.path()]);
    }
}

fn tool(name: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(name);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns whether a thread of the process waits for a file system.
fn waits_for_a_file(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).ok();
    tasks.filter_map(stat).any(|stat| stat.contains(") D "))
}

#[test]
fn requests_that_need_no_file_go_on_while_the_file_system_of_the_directory_hangs() {
    let Some(frozen) = Frozen::new() else { return };
    let dir = wsgi("", "return answer(len(environ['wsgi.input'].read()))");
    let runtime = tempfile::tempdir_in(frozen.path()).unwrap();
    let command = start_command(runtime.path(), dir.path(), &[]);
    let mut server = Server::start_with(command, runtime);
    assert_eq!(server.get("/"), "0");
    let hangs = frozen.freeze_while_it_is_restored(&server);
    let ask = |size: usize| {
        let reply = server.client().request("POST", "/", &[], &vec![b'x'; size]);
        reply.map(|reply| reply.text()).map_err(|e| e.to_string())
    };
    let replies = [0, 3, 60_000].map(ask);
    let status = run(server.runtime.path(), &["status"]);
    // Before the test can fail: no process that waits for the file system ends.
    frozen.thaw();
    assert!(hangs, "the server does not restore its directory");
    assert_eq!(replies, ["0", "3", "60000"].map(|text| Ok(text.to_owned())));
    assert!(status.status.success(), "{status:?}");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_stop_ends_in_time_while_the_file_system_of_the_directory_hangs() {
    for signals in [1, 2] {
        let Some(frozen) = Frozen::new() else { return };
        let dir = wsgi("", "return answer('ok')");
        let runtime = tempfile::tempdir_in(frozen.path()).unwrap();
        let options = ["--shutdown-timeout", if signals == 1 { "2" } else { "60" }];
        let command = start_command(runtime.path(), dir.path(), &options);
        let mut server = Server::start_with(command, runtime);
        assert_eq!(server.get("/"), "ok");
        frozen.freeze();
        std::thread::sleep(Duration::from_secs(2)); // the server looks at its directory
        let begun = Instant::now();
        server.signal(Signal::TERM);
        if signals == 2 {
            std::thread::sleep(Duration::from_millis(700));
            server.signal(Signal::TERM);
        }
        let has_ended = until(Duration::from_secs(10), || server.has_ended().is_some());
        let took = begun.elapsed();
        // Before the test can fail: no process that waits for the file system ends.
        frozen.thaw();
        assert!(has_ended && took < Duration::from_secs(6), "{took:?} {}", server.log());
        server.logs("is not removed in time");
        eventually("the reaper removes the directory", || {
            (fs::read_dir(server.runtime.path()).unwrap().count() == 0).then_some(())
        });
    }
}
