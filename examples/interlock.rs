//! The two programs that the load interlock is known for: `cargo run --example interlock`.
//!
//! An execution starts a thread and waits for it; the thread's execution needs `User`, which is not
//! loaded yet. In the first program the outer execution keeps its share while it waits: a deadlock,
//! which is reported here. In the second it permits loads.
use cabrank::execution::interlock::{LoadError, Loaded, Running};
use cabrank::{AcquireError, Interlock};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;

/// What the inner thread does: it needs `User`.
fn greet(user: &Loaded<&'static str>, r: &mut Running) -> Result<String, LoadError<Infallible>> {
    r.set_name("the inner thread");
    let name = user.get_or_load(r, || {
        println!("loading User");
        Ok("Ann")
    })?;
    Ok(format!("hello, {}", *name))
}

fn deadlock() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    interlock.run(|r| {
        r.set_name("the outer thread");
        let (child, user) = (r.child(), user.clone());
        let inner = thread::spawn(move || child.run(|r| greet(&user, r)));
        // The outer execution waits here and keeps its share: nothing can be loaded meanwhile.
        // Whoever closes the circle is told: the inner one as it begins to load, or else this one.
        let waited = r.waiting(|| inner.join().expect("no panic"));
        match waited.map_err(LoadError::Acquire).and_then(|greeting| greeting) {
            Err(LoadError::Acquire(AcquireError::Deadlock(deadlock))) => {
                println!("{deadlock}\n\n{}", deadlock.dump());
            }
            other => println!("{other:?}"),
        }
    });
}

fn mended() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    interlock.run(|r| {
        r.set_name("the outer thread");
        let (child, user) = (r.child(), user.clone());
        let inner = thread::spawn(move || child.run(|r| greet(&user, r)));
        // `join` waits without a share: see `Running::permit_loads`.
        let greeting = r.join(inner).expect("the only share").expect("no panic");
        println!("{}", greeting.expect("it is loaded"));
    });
}

fn main() {
    println!("1. The outer execution keeps its share:\n");
    deadlock();
    println!("2. The outer execution permits loads:\n");
    mended();
}
