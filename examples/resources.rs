//! Four threads share at most three connections to two servers: `cargo run --example resources`.

use cabrank::resource_pool::{Event, KeyedResourcePool, ResourceFactory};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Opens and tests TCP connections. The key is the server's port.
struct Connections;

impl ResourceFactory for Connections {
    type Resource = TcpStream;
    type Metadata = u16;
    type Error = std::io::Error;

    fn create(&self, port: &u16) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", *port))
    }
    /// Returns false for a connection that the server has closed: `peek` would not block on it.
    fn validate(&self, _: &u16, connection: &mut TcpStream) -> bool {
        let open = connection.set_nonblocking(true).is_ok()
            && matches!(connection.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        open && connection.set_nonblocking(false).is_ok()
    }
}

/// Starts a server that echoes every connection, and returns its port.
fn start_echo_server() -> std::io::Result<u16> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let port = server.local_addr()?.port();
    std::thread::spawn(move || {
        for connection in server.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &connection, &mut &connection));
        }
    });
    Ok(port)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ports = [start_echo_server()?, start_echo_server()?];

    let pool = KeyedResourcePool::builder(Connections)
        .max_active(2) // to each server
        .max_total(3) // to both
        .max_idle_time(Duration::from_secs(60))
        .max_wait(Duration::from_secs(5))
        .test_on_borrow(true)
        .listener(|port, event: &Event<std::io::Error>| eprintln!("port {port}: {event:?}"))
        .build()?;

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, ports) = (&pool, &ports);
            scope.spawn(move || {
                for turn in 0..1000 {
                    let mut connection = pool
                        .borrow(&ports[(thread + turn) % 2])
                        .expect("a connection within max_wait");
                    let mut answer = [0; 5];
                    connection.write_all(b"hello").expect("the server reads");
                    connection.read_exact(&mut answer).expect("the server answers");
                    assert_eq!(&answer, b"hello");
                } // dropping the guard returns the connection
            });
        }
    });
    println!("after 4000 borrows: {pool:?}");
    assert!(pool.num_total() <= 3);
    pool.close();
    assert!(pool.wait_closed(Duration::from_secs(5)), "all connections are closed");
    Ok(())
}
