//! A deadlock of the load interlock, reported and avoided: `cargo run --example interlock`.
//!
//! An execution starts a thread and waits for it. The thread's execution needs `User`, which is not
//! loaded yet. In the first program the outer execution keeps its share while it waits, so the load
//! cannot begin: the interlock reports the deadlock. In the second program it permits loads.

use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, LoadError, Loaded, Running};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;

/// The work of the inner thread, which needs `User`.
fn greet(user: &Loaded<&'static str>, r: &mut Running) -> Result<String, LoadError<Infallible>> {
    r.set_name("the inner thread");
    let name = user.get_or_load(r, || {
        println!("loading User");
        Ok("Ann")
    })?;
    Ok(format!("hello, {}", *name))
}

/// Waits for the inner thread without permitting loads.
fn deadlock() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    interlock.run(|r| {
        r.set_name("the outer thread");
        let (child, user) = (r.child(), user.clone());
        let inner = thread::spawn(move || child.run(|r| greet(&user, r)));
        // The outer execution keeps its share while it waits. The execution that completes the deadlock
        // gets the error: the inner one when it begins to load, or else this one.
        let result = r.waiting(|| inner.join().expect("the inner thread does not panic"));
        match result.map_err(LoadError::Acquire).and_then(|greeting| greeting) {
            Err(LoadError::Acquire(AcquireError::Deadlock(deadlock))) => {
                println!("{deadlock}\n\n{}", deadlock.dump());
            }
            other => println!("{other:?}"),
        }
    });
}

/// Permits loads while it waits for the inner thread.
fn permitting_loads() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    interlock.run(|r| {
        r.set_name("the outer thread");
        let (child, user) = (r.child(), user.clone());
        let inner = thread::spawn(move || child.run(|r| greet(&user, r)));
        // `join` permits loads while it waits, like `Running::permit_loads`.
        let greeting = r.join(inner).expect("the execution has one share");
        let greeting = greeting.expect("the inner thread does not panic");
        println!("{}", greeting.expect("the load succeeds"));
    });
}

fn main() {
    println!("1. The outer execution keeps its share:\n");
    deadlock();
    println!("2. The outer execution permits loads:\n");
    permitting_loads();
}
