//! Four threads share two connections to each of two hosts, three in all: `cargo run --example resources`.

use cabrank::resource_pool::{KeyedResourcePool, PoolEvent, ResourceFactory};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Real connections; the key is the port they lead to.
struct Connections;

impl ResourceFactory for Connections {
    type Resource = TcpStream;
    type Metadata = u16;
    type Error = std::io::Error;

    fn create(&self, port: &u16) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", *port))
    }
    /// One that the other side has closed can be read to its end.
    fn validate(&self, _: &u16, connection: &mut TcpStream) -> bool {
        let open = connection.set_nonblocking(true).is_ok()
            && matches!(connection.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        open && connection.set_nonblocking(false).is_ok()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hosts = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let ports = [hosts[0].local_addr()?.port(), hosts[1].local_addr()?.port()];

    let pool = KeyedResourcePool::builder(Connections)
        .max_active(2)
        .max_total(3)
        .max_idle_time(Duration::from_secs(60))
        .max_wait(Duration::from_secs(5))
        .test_on_borrow(true)
        .listener(|port, event: &PoolEvent<std::io::Error>| eprintln!("port {port}: {event:?}"))
        .build()?;

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, ports) = (&pool, &ports);
            scope.spawn(move || {
                for turn in 0..1000 {
                    let connection = pool.borrow(&ports[(thread + turn) % 2]).expect("in time");
                    assert!(connection.peer_addr().is_ok());
                } // goes back here
            });
        }
    });
    println!("after 4000 loans: {pool:?}");
    assert!(pool.num_total() <= 3);
    pool.close();
    assert!(pool.wait_closed(Duration::from_secs(5)), "nothing is left of it");
    Ok(())
}
