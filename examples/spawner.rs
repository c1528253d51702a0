//! A pool of real processes: `cargo run --example spawner`.
//!
//! Each process is a `cat`, which echoes the lines that a session writes into its pipe.

use cabrank::application_pool::{
    ConnectError, Process, ShutDown, SpawnError, SpawnRequest, Spawner,
};
use cabrank::{ApplicationPool, PoolOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Spawns `cat` processes.
struct Cats;

/// One process. It has one session at a time, whose connection is the process itself.
struct Cat(Arc<Mutex<Child>>);

impl Spawner for Cats {
    type Process = Cat;

    fn spawn(&self, _: &SpawnRequest) -> Result<Cat, SpawnError> {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Ok(Cat(Arc::new(Mutex::new(child.map_err(SpawnError::new)?))))
    }
}

impl Process for Cat {
    type Connection = Arc<Mutex<Child>>;

    fn connect(&self) -> Result<Self::Connection, ConnectError> {
        match self.0.lock().map_err(|_| ConnectError::process("poisoned"))?.try_wait() {
            Ok(None) => Ok(self.0.clone()),
            Ok(Some(status)) => Err(ConnectError::process(format!("cat has exited: {status}"))),
            Err(error) => Err(ConnectError::local(error)),
        }
    }

    fn shut_down(&self, _: ShutDown) {
        if let Ok(mut child) = self.0.lock() {
            // `cat` exits at the end of its input.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = ApplicationPool::builder(Cats).max(2).build()?;
    let cats = PoolOptions::new("/");
    for line in ["meow", "purr"] {
        let session = pool.get(&cats)?;
        let mut cat = session.lock().map_err(|_| "poisoned")?;
        writeln!(cat.stdin.as_mut().ok_or("no pipe")?, "{line}")?;
        let mut answer = String::new();
        BufReader::new(cat.stdout.as_mut().ok_or("no pipe")?).read_line(&mut answer)?;
        print!("process {} says {answer}", cat.id());
    }
    pool.close();
    Ok(())
}
