//! Four threads share two connections to each of two hosts, three in all: `cargo run --example resources`.

use cabrank::resource_pool::{KeyedResourcePool, PoolEvent, ResourceFactory};
use std::io::{Read, Write};
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

/// Sends back what each of its connections sends, to its end. Gives the port.
fn echo() -> std::io::Result<u16> {
    let host = TcpListener::bind("127.0.0.1:0")?;
    let port = host.local_addr()?.port();
    std::thread::spawn(move || {
        for connection in host.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &connection, &mut &connection));
        }
    });
    Ok(port)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ports = [echo()?, echo()?];

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
                    let mut connection = pool.borrow(&ports[(thread + turn) % 2]).expect("in time");
                    let mut answer = [0; 5];
                    connection.write_all(b"hello").expect("the host is there");
                    connection.read_exact(&mut answer).expect("the host answers");
                    assert_eq!(&answer, b"hello");
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
