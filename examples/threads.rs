//! Six threads share two processes: `cargo run --example threads --features in-memory`.

use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, PoolOptions};
use std::thread;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spawner = InMemorySpawner::new();
    // Each process of this application takes 50 ms to start.
    spawner.always("/srv/shop", Spawn::ready().after(Duration::from_millis(50)));
    let pool = ApplicationPool::builder(spawner).max(2).build()?;
    let shop = PoolOptions::new("/srv/shop");
    thread::scope(|scope| {
        for client in 0..6 {
            let (pool, shop) = (&pool, &shop);
            scope.spawn(move || match pool.get(shop) {
                Ok(session) => {
                    println!("process {} serves client {client}", session.pid());
                    thread::sleep(Duration::from_millis(100)); // the request takes a while
                }
                Err(error) => println!("client {client}: {error}"),
            });
        }
    });
    println!("{:#?}", pool.snapshot().totals);
    Ok(())
}
