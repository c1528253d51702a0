//! A task waits for a process, on any runtime: `cargo run --example tasks --features in-memory`.

use cabrank::in_memory::InMemorySpawner;
use cabrank::{ApplicationPool, PoolOptions};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A minimal runtime: it runs one future, and parks the thread while the future is pending.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = ApplicationPool::builder(InMemorySpawner::new()).max(1).build()?;
    let shop = PoolOptions::new("/srv/shop");
    let session = pool.get(&shop)?;
    let waiting = thread::spawn({
        let (pool, shop) = (pool.clone(), shop.clone());
        // Dropping this future at any point frees its place in the queue.
        move || block_on(pool.get_async(&shop)).map(|session| session.pid())
    });
    println!("process {} is busy, so the task waits", session.pid());
    drop(session); // the process becomes free
    let pid = waiting.join().map_err(|_| "the task panicked")??;
    println!("then process {pid} serves the task");
    Ok(())
}
