//! The program's own binary as a helper: the steps between fork and exec, and the reaper.
//!
//! Few functions are safe to call between fork and exec, and a killed program runs no code. So the library
//! executes the program's own binary for both, with a first argument that no user passes. Such a process
//! must not run the program, so [`helper`] comes first in `main`.

use crate::{prepare, reaper};

/// The evidence that `main` has called [`helper`].
///
/// Without the call, a helper process would run the whole program again.
#[derive(Clone, Copy, Debug)]
pub struct Helper(());

/// Returns at once in the program itself, and never in one of its helper processes.
///
/// Call it first in `main`, before a runtime starts: a helper process closes all its descriptors, and changes its user.
///
/// # Panics
/// A runtime of tokio runs. `#[tokio::main]` starts one before `main` begins, so use
/// `tokio::runtime::Runtime::new()?.block_on(…)` after this call.
///
/// ```no_run
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let helper = cabrank_spawner::helper();
///     tokio::runtime::Runtime::new()?.block_on(run(helper))
/// }
/// # async fn run(_: cabrank_spawner::Helper) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
/// ```
pub fn helper() -> Helper {
    // The threads of a runtime fail when their descriptors go, and write so to the application's output.
    assert!(
        tokio::runtime::Handle::try_current().is_err(),
        "cabrank_spawner::helper() must come before the runtime: replace #[tokio::main] by \
         `tokio::runtime::Runtime::new()?.block_on(…)` after the call"
    );
    let mut arguments = std::env::args_os().skip(1);
    let done = match arguments.next() {
        Some(first) if first == prepare::COMMAND => prepare::run(arguments),
        Some(first) if first == reaper::COMMAND => reaper::run(arguments),
        _ => return Helper(()),
    };
    std::process::exit(i32::from(!done))
}
