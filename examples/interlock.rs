//! A deadlock around the load interlock, ended by a time limit and avoided: `cargo run --example interlock`.
//!
//! An execution starts a thread and waits for it. The thread's execution needs `User`, which is not loaded yet. A load
//! waits until no other execution runs.
//!
//! In the first program the outer execution keeps its share while it waits for the thread. The interlock does not see
//! that wait, so only the time limit ends the load. Its error shows each execution, and where it stands. In the second
//! program the outer execution permits loads while it waits.

use cabrank::execution::interlock::{AcquireError, Loaded};
use cabrank::execution::{BoxError, ExecutionError, Executor, Interlock};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

type Inner = JoinHandle<Result<String, ExecutionError>>;

fn executor() -> Executor {
    Executor::builder()
        .interlock(Interlock::new())
        .acquire_timeout(Duration::from_millis(200))
        .build()
}

/// Starts a thread whose execution loads `User`.
fn greet(executor: &Executor) -> Result<Inner, BoxError> {
    let (executor, user) = (executor.clone(), Arc::new(Loaded::new()));
    let inner = thread::Builder::new().name("inner".to_owned());
    Ok(inner.spawn(move || {
        executor.wrap(|execution| {
            let running = execution.running().ok_or("the executor has an interlock")?;
            let name = user.get_or_load(running, || {
                println!("loading User");
                Ok::<_, AcquireError>("Ann")
            })?;
            Ok(format!("hello, {}", *name))
        })
    })?)
}

fn main() -> Result<(), BoxError> {
    println!("1. The outer execution keeps its share:\n");
    let executor = executor();
    let greeting = executor.wrap(|_| {
        let inner = greet(&executor)?;
        Ok(inner.join().expect("the thread does not panic"))
    })?;
    match greeting {
        Ok(greeting) => println!("{greeting}"),
        Err(error) => match error.first().cause().downcast_ref() {
            Some(AcquireError::TimedOut(blocked)) => println!("{error}\n\n{}", blocked.dump),
            _ => return Err(error.into()),
        },
    }

    println!("\n2. The outer execution permits loads:\n");
    let greeting = executor.wrap(|execution| {
        let inner = greet(&executor)?;
        let running = execution.running().ok_or("the executor has an interlock")?;
        let joined = running.permit_loads(|| inner.join())?;
        Ok(joined.expect("the thread does not panic")?)
    })?;
    println!("{greeting}");
    Ok(())
}
