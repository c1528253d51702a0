//! `cabrank __prepare`: prepares a child to become an application process.
//!
//! These steps belong between fork and exec, where only few functions are safe to call. So the server
//! executes itself in the child, and this code runs there, alone in a fresh process:
//!
//! 1. It begins a session, and so a process group, of its own. The session has no terminal, so the application cannot
//!    type into the terminal of the server.
//! 2. It closes all descriptors except the standard ones. The server's parent may have left others open.
//! 3. It unblocks all signals. The server's parent may have blocked some, and the application could not be asked to leave.
//! 4. It takes on the user of `--user`, if there is one, and then enters the application's directory. The user may have put
//!    a link to another directory there, which only the server may enter.
//! 5. It gives up new privileges, with `--no-new-privileges`.
//! 6. It restores the limit of open files, which the server raises for itself. Programs that use `select`, or close
//!    each possible descriptor, suffer from a high one.
//! 7. It asks the kernel to kill this process as soon as the server ends, however the server ends (`PR_SET_PDEATHSIG`).
//!    The request comes after step 4, because a change of the user cancels it. An exec keeps it, unless the program has
//!    file capabilities or the set-user-ID bit.
//! 8. It reads the file of variables (`--env-file`), with the rights of its user.
//! 9. It executes the interpreter, or a login shell that does (`--load-shell-environment`), with the variables that the application's own script sets. They come with the arguments, because
//!    this binary would obey some of them, such as `LD_PRELOAD`, with the rights of the server.
//!
//! The kernel takes the end of the *thread* that forked for the server's end, so
//! [`Forker`](crate::forker::Forker) forks on a thread that never ends. The request covers this process
//! only; the [`reaper`](crate::reaper) kills the rest of its process group.

use crate::env_file::variables_of_file;
use crate::user::User;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first argument of the command.
pub(crate) const COMMAND: &str = "__prepare";
/// The beginning of the error text that this process sends if it cannot execute the interpreter.
pub(crate) const FAILED: &str = "cabrank: ";
/// The beginning of the text behind it if the process cannot enter the application's directory.
pub(crate) const NO_ENTRY: &str = "cannot enter the application's directory ";

/// The beginning of the text behind it if the process cannot read its file of variables.
pub(crate) const NO_VARIABLES: &str = "cannot read the variables in ";

/// The shell that runs commands, and stands in for a login shell that is none.
pub(crate) const SHELL: &str = "/bin/sh";

/// The binary of the running process, even if the file has been replaced or removed meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// The state in which a process begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// The user; `None`: the server's.
    pub(crate) user: Option<&'a User>,
    pub(crate) directory: &'a Path,
    /// The soft limit of open files; `None`: no limit.
    pub(crate) open_files: Option<u64>,
    pub(crate) no_new_privileges: bool,
    /// A file with variables of the program, absolute or below the directory.
    pub(crate) env_file: Option<&'a Path>,
    /// Whether a login shell of the user executes the program.
    pub(crate) loads_shell_environment: bool,
    /// Variables of the program, which override those of the command.
    pub(crate) variables: &'a [(String, String)],
}

/// Returns a command that prepares its process and then executes `program`.
pub(crate) fn command(program: &Path, setting: Setting<'_>) -> Command {
    let mut command = own_binary(COMMAND);
    command.arg(std::process::id().to_string());
    command.arg(setting.open_files.map_or_else(String::new, |limit| limit.to_string()));
    command.arg(setting.no_new_privileges.to_string()).arg(setting.directory);
    match setting.user {
        Some(user) => {
            command.args([user.name.clone(), user.uid.to_string(), user.gid.to_string()]);
            command.env("USER", &user.name).env("LOGNAME", &user.name);
            command.env("HOME", &user.home).env("SHELL", &user.shell);
        }
        None => {
            command.args(["", "", ""]);
        }
    }
    let shell = setting.loads_shell_environment.then(|| login_shell(setting.user));
    command.arg(setting.env_file.unwrap_or(Path::new(""))).arg(shell.unwrap_or_default());
    command.arg(setting.variables.len().to_string());
    command.args(setting.variables.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(program);
    command
}

/// Returns the login shell of a user, if it can execute a program as a shell of POSIX does, else the one that each system has.
fn login_shell(user: Option<&User>) -> PathBuf {
    let own = || nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    let shell = user.map(|user| user.shell.clone()).or_else(|| own().map(|user| user.shell));
    let is_fit = |shell: &PathBuf| {
        let name = shell.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| ["sh", "bash", "dash", "ksh", "mksh", "zsh"].contains(&name))
    };
    shell.filter(is_fit).unwrap_or_else(|| SHELL.into())
}

/// Returns a command that executes this binary.
pub(crate) fn own_binary(command: &str) -> Command {
    let mut own = Command::new(OWN_BINARY);
    own.arg0("cabrank").arg(command);
    own
}

/// Runs in the child. Returns false if a step fails; the message then goes to the program. Success does not return.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> bool {
    let Err(why) = prepare_and_execute(arguments);
    // The server reads this as the failed handshake of a loader.
    let _ = io::stdout().write_all(format!("!> Error\n!> \n{FAILED}{why}").as_bytes());
    false
}

fn prepare_and_execute(
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<std::convert::Infallible, String> {
    let mut next = || arguments.next().ok_or("missing argument");
    let [server, open_files, no_new_privileges] = [next()?, next()?, next()?];
    let [directory, name, uid, gid] = [next()?, next()?, next()?, next()?];
    let [env_file, shell, count] = [next()?, next()?, next()?];
    let count = count.to_str().and_then(|count| count.parse().ok()).unwrap_or(0);
    let variables: Vec<_> = (0..count).map(|_| next()).collect::<Result<_, _>>()?;
    let program = next()?;
    rustix::process::setsid().map_err(|e| format!("cannot begin a session: {e}"))?;
    close_descriptors().map_err(|e| format!("cannot close inherited descriptors: {e}"))?;
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .map_err(|e| format!("cannot unblock signals: {e}"))?;
    if !name.is_empty() {
        let change = || User::assume(name.to_str()?, uid.to_str()?, gid.to_str()?);
        change()
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
            .flatten()
            .map_err(|e: io::Error| format!("cannot become the user {}: {e}", name.display()))?;
    }
    std::env::set_current_dir(&directory)
        .map_err(|e| format!("{NO_ENTRY}{}: {e}", directory.display()))?;
    if no_new_privileges == "true" {
        rustix::thread::set_no_new_privs(true)
            .map_err(|e| format!("cannot give up new privileges: {e}"))?;
    }
    let current = open_files.to_str().and_then(|limit| limit.parse().ok());
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .map_err(|e| format!("cannot restore the limit of open files: {e}"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| format!("cannot tie the process to the server: {e}"))?;
    // A server that died before the request cannot trigger it any more.
    if rustix::process::getppid().map(Pid::as_raw_pid).map(|p| p.to_string().into()) != Some(server)
    {
        return Err("the server has ended".into());
    }
    let from_file = match env_file.is_empty() {
        true => Vec::new(),
        false => variables_of_file(Path::new(&env_file), None)
            .map_err(|e| format!("{NO_VARIABLES}{}: {e}", env_file.display()))?,
    };
    let from_file = from_file.iter().filter(|(name, _)| std::env::var_os(name).is_none());
    let from_file = from_file.map(|(name, value)| (&**name, &**value));
    let pairs = variables.iter().filter_map(|pair| pair.to_str()?.split_once('='));
    let mut command = match shell.is_empty() {
        true => Command::new(&program),
        false => {
            let mut shell = Command::new(&shell);
            shell.args(["-l", "-c", "exec \"$0\" \"$@\""]).arg(&program);
            shell
        }
    };
    let error = command.args(arguments).envs(from_file.chain(pairs)).exec();
    Err(format!("cannot start {}: {error}", program.display()))
}

/// Closes all descriptors except standard input, output and error.
///
/// Call it in a process without threads that owns no descriptor.
pub(crate) fn close_descriptors() -> io::Result<()> {
    // The list has the descriptor of the list itself, which is closed by then.
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd")?
        .map(|e| e.map(|e| e.file_name()))
        .collect::<Result<_, _>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|&number| number > 2) {
        let _ = nix::unistd::close(number);
    }
    Ok(())
}
