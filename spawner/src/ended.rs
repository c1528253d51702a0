//! Whether a process has ended, as `/proc` shows it.
//!
//! The main thread of a process may end before the others (`pthread_exit`). `/proc/PID/stat` then shows the state of a
//! zombie, while the process goes on. So the state alone does not show the end of the process.

use procfs::process::{Process, Stat, Task};

/// `PF_EXITING` of the kernel's task flags: the thread is exiting.
const EXITING: u32 = 0x4;

/// Returns whether the process has ended. Its parent may still have to reap it.
pub(crate) fn has_ended(facts: &Stat) -> bool {
    is_zombie(facts) && facts.num_threads <= 1
}

/// Returns whether each thread of the process has ended or is exiting.
pub(crate) fn is_exiting(process: &Process) -> bool {
    let ends = |facts: &Stat| is_zombie(facts) || facts.flags & EXITING != 0;
    // A process that cannot be looked at has been reaped.
    let Ok(main) = process.stat() else { return true };
    ends(&main) && (main.num_threads <= 1 || threads(process).all(|facts| ends(&facts.1)))
}

/// Returns a thread of the process that still runs.
pub(crate) fn running_thread(process: &Process) -> Option<Task> {
    threads(process).find(|(_, facts)| !is_zombie(facts)).map(|(thread, _)| thread)
}

fn threads(process: &Process) -> impl Iterator<Item = (Task, Stat)> {
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks.filter_map(|thread| thread.stat().ok().map(|facts| (thread, facts)))
}

fn is_zombie(facts: &Stat) -> bool {
    matches!(facts.state, 'Z' | 'X')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    /// Waits for a fact that comes soon.
    pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < end, "the fact has not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a process that leads a group. It runs the Python code on another thread, and its main thread ends.
    pub(crate) fn without_main_thread(code: &str) -> Child {
        let code = format!(
            "import ctypes, os, socket, threading, time\n\
             def work():\n    {code}\n    time.sleep(600)\n\
             threading.Thread(target=work).start()\n\
             ctypes.CDLL(None).pthread_exit(None)\n"
        );
        let child = Command::new("python3").args(["-c", &code]).process_group(0).spawn().unwrap();
        eventually(|| is_zombie(&facts(&child)));
        child
    }

    fn facts(child: &Child) -> Stat {
        process(child).stat().unwrap()
    }

    fn process(child: &Child) -> Process {
        Process::new(child.id().cast_signed()).unwrap()
    }

    #[test]
    fn a_process_goes_on_after_its_main_thread() {
        let mut child = without_main_thread("pass");
        assert!(!has_ended(&facts(&child)) && !is_exiting(&process(&child)));
        assert!(running_thread(&process(&child)).is_some());
        child.kill().unwrap();
        eventually(|| has_ended(&facts(&child)));
        assert!(is_exiting(&process(&child)) && running_thread(&process(&child)).is_none());
        let process = process(&child);
        child.wait().unwrap();
        assert!(is_exiting(&process));
    }
}
