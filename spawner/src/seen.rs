//! The doings of a process that does not become ready, as `/proc` and its output show them.

use crate::app_type::Interpreter;
use crate::listening::{self, members};
use procfs::process::Process;
use std::io::Read;
use std::net::SocketAddr;

/// Texts that debuggers print when they wait: Python's and Ruby's.
const DEBUGGERS: [&str; 4] = ["(Pdb)", "DEBUGGER: Debugger can attach", "(rdbg)", "(byebug)"];
/// Words of the command lines of processes that wait for a debugger, or belong to one.
const DEBUGGED: [&str; 3] = ["--inspect-brk", "--inspect-wait", "debugpy"];
/// How much is read of the command line, and of the variables, of a process.
const MAX_STRINGS: u64 = 256 * 1024;
const SLOW: &str = "Raise --start-timeout if it needs longer to boot.";

/// Returns what a process group is doing, with the remedy. `output` is what it has printed until now.
pub(crate) fn doing(group: u32, output: &str, interpreter: Option<Interpreter>) -> String {
    let processes = members(group).unwrap_or_default();
    if waits_for_debugger(&processes, output) {
        return "it waits for a debugger. Start it without one.".into();
    }
    // Node names the address of its debugger, for which it need not wait.
    let is_own = |address: &SocketAddr| !output.contains(&format!("ws://{address}/"));
    if let Some(addresses) = joined(listening::addresses(group), is_own) {
        let code = match interpreter {
            Some(Interpreter::Python) => {
                " Move that call (`app.run`, `uvicorn.run`) behind `if __name__ == \"__main__\"`."
            }
            Some(Interpreter::Node) => {
                " If it calls PhusionPassenger.configure({ autoInstall: false }), let it call listen('passenger')."
            }
            _ => "",
        };
        return format!(
            "it listens at {addresses} by itself, where the server does not look for it.{code} To start it by its own \
             server, use --start-command."
        );
    }
    if let Some(addresses) = joined(listening::connecting(group), |_| true) {
        return format!("it connects to {addresses}, which does not answer. {SLOW}");
    }
    let code = match interpreter {
        Some(Interpreter::Ruby) => "Ruby code",
        Some(Interpreter::Python) => "Python code",
        Some(Interpreter::Node) => "JavaScript code",
        None => "code",
    };
    match processes.iter().any(runs) {
        true => format!("it is still running {code}. {SLOW}"),
        false => format!(
            "it runs no {code}, and waits: for a lock, a program or a service, perhaps. {SLOW}"
        ),
    }
}

fn joined(
    addresses: procfs::ProcResult<Vec<SocketAddr>>,
    counts: impl Fn(&SocketAddr) -> bool,
) -> Option<String> {
    let addresses = addresses.unwrap_or_default().into_iter().filter(counts);
    let mut addresses: Vec<_> = addresses.map(|address| address.to_string()).collect();
    addresses.sort();
    addresses.dedup();
    (!addresses.is_empty()).then(|| addresses.join(" and "))
}

fn waits_for_debugger(processes: &[Process], output: &str) -> bool {
    let is_named = |text: &str| DEBUGGED.iter().any(|word| text.contains(word));
    let is_debugged = |process: &Process| {
        let is_option = |word: &&str| word.starts_with("NODE_OPTIONS=");
        strings(process, "cmdline").split('\0').any(is_named)
            || strings(process, "environ").split('\0').find(is_option).is_some_and(is_named)
    };
    DEBUGGERS.iter().any(|text| output.contains(text)) || processes.iter().any(is_debugged)
}

/// Returns the beginning of a file of `/proc` with strings, each ended by NUL.
///
/// A process chooses the memory that is shown there, and so how much it is.
fn strings(process: &Process, name: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = process.open_relative(name) {
        // An error ends it early.
        let _ = file.take(MAX_STRINGS).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns whether a thread of the process runs, or is ready to.
fn runs(process: &Process) -> bool {
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks.into_iter().any(|thread| thread.stat().is_ok_and(|facts| facts.state == 'R'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended::tests::eventually;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// A process that leads a group, and runs Python code.
    struct Running(Child);

    impl Running {
        fn new(code: &str) -> Running {
            Running::with("NODE_OPTIONS", "", code)
        }

        fn with(name: &str, value: &str, code: &str) -> Running {
            let mut python = Command::new("python3");
            python.env(name, value);
            python.args(["-c", code]).process_group(0).stdin(Stdio::piped());
            Running(python.spawn().unwrap())
        }

        fn does(&self, part: &str) {
            let mut last = String::new();
            eventually(|| {
                last = doing(self.0.id(), "", Some(Interpreter::Python));
                last.contains(part)
            });
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// A process may show any amount of its memory as its command line.
    #[test]
    fn the_beginning_of_a_long_command_line_is_read() {
        let mut python = Command::new("python3");
        python.args(["-c", "input()"]).args(vec!["x".repeat(100_000); 8]);
        let running = Running(python.process_group(0).stdin(Stdio::piped()).spawn().unwrap());
        let process = Process::new(running.0.id().try_into().unwrap()).unwrap();
        eventually(|| strings(&process, "cmdline").len() as u64 == MAX_STRINGS);
    }

    #[test]
    fn a_process_listens_runs_or_waits() {
        Running::new("while True: pass").does("it is still running Python code. Raise");
        Running::new("input()").does("it runs no Python code, and waits");
        let listens = "import socket; s = socket.create_server(('127.0.0.1', 0)); input()";
        Running::new(listens).does("it listens at 127.0.0.1:");
    }

    #[test]
    fn a_process_that_connects_names_the_address() {
        // A listener whose queue is full answers no further connection.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let at = listener.local_addr().unwrap();
        let code = format!(
            "import socket\nqueue = [socket.socket() for _ in range(9)]\n\
             for s in queue[1:]: s.setblocking(False); s.connect_ex(('127.0.0.1', {0}))\n\
             socket.create_connection(('127.0.0.1', {0}), 600)",
            at.port()
        );
        Running::new(&code).does(&format!("it connects to {at}"));
    }

    #[test]
    fn a_debugger_is_recognised_by_its_output_or_by_the_command() {
        let doing = |output| doing(4_194_305, output, Some(Interpreter::Python));
        assert!(doing("> /srv/app.py(1)<module>()\n(Pdb) ").contains("a debugger"));
        assert!(!doing("").contains("a debugger"));
        Running::new("input() # --inspect-brk").does("a debugger");
        Running::with("NODE_OPTIONS", "--inspect-brk", "input()").does("a debugger");
    }

    #[test]
    fn the_address_of_nodes_debugger_is_none_of_the_application() {
        let listens = "import socket; s = socket.create_server(('127.0.0.1', 0)); input()";
        let node = Running::new(listens);
        node.does("it listens at");
        let text = doing(node.0.id(), "", Some(Interpreter::Node));
        assert!(text.contains("let it call listen('passenger')"), "{text}");
        let at = text.split([' ', ',']).find(|word| word.starts_with("127.0.0.1:")).unwrap();
        let output = format!("Debugger listening on ws://{at}/1-2\n");
        eventually(|| doing(node.0.id(), &output, Some(Interpreter::Node)).contains("and waits"));
    }
}
