//! A destructor that may run anywhere, also under a lock, leaves its work to a periodic executor.
//!
//! A cursor that is dropped early must be closed on the server. Its destructor only appends the cursor's number
//! to a queue without locks, and wakes the executor, which takes no lock either. The executor may take the connection's
//! lock: no other lock is held on its thread.
//!
//! `cargo run --example deferred`

use cabrank::PeriodicExecutor;
use cabrank::periodic_executor::{CloseOnDrop, ShutdownAtExit};
use crossbeam_queue::SegQueue;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The connection to a server. Every use takes its lock.
#[derive(Default)]
struct Connection {
    killed: Vec<u64>,
}

struct Client {
    connection: Arc<Mutex<Connection>>,
    dropped: Arc<SegQueue<u64>>,
    killer: PeriodicExecutor,
    _close: CloseOnDrop,
}

impl Client {
    fn new() -> Result<Client, Box<dyn Error>> {
        let (connection, dropped) = <(Arc<Mutex<Connection>>, Arc<SegQueue<u64>>)>::default();
        let (theirs, queue) = (connection.clone(), dropped.clone());
        let killer = PeriodicExecutor::builder(None).name("kill cursors").build(move || {
            let cursors: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
            if !cursors.is_empty() {
                // One message for all cursors that were dropped since the last call.
                theirs.lock().expect("no panic under the lock").killed.extend(cursors);
            }
        });
        killer.open()?;
        let _close = killer.close_on_drop();
        Ok(Client { connection, dropped, killer, _close })
    }
    fn find(&self, id: u64) -> Cursor<'_> {
        Cursor { client: self, id }
    }
}

struct Cursor<'a> {
    client: &'a Client,
    id: u64,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.client.dropped.push(self.id);
        self.client.killer.wake();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let _shutdown = ShutdownAtExit::new(Duration::from_secs(2));
    let client = Client::new()?;
    {
        // Here a destructor that took the lock itself would wait for its own thread.
        let connection = client.connection.lock().expect("no panic under the lock");
        (1..=3).for_each(|id| drop(client.find(id)));
        println!("killed under the lock: {:?}", connection.killed);
    }
    loop {
        let killed = client.connection.lock().expect("no panic under the lock").killed.clone();
        if killed.len() == 3 {
            println!("killed by the executor: {killed:?}");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
