//! Connections to an HTTP/1.1 server for tasks, by `hyper`.

use bytes::Bytes;
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool, BuildError};
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// The reason why a connect, or the end of a response, failed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Creates, tests and cleans up connections.
#[derive(Debug)]
pub struct Connections;

impl AsyncResourceFactory for Connections {
    type Resource = SendRequest<Full<Bytes>>;
    type Metadata = String; // the server's address, such as "127.0.0.1:8080"
    type Error = Error;

    async fn create(&self, address: &String) -> Result<SendRequest<Full<Bytes>>, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // The task ends when the sender is dropped, or the server closes the connection. The calls of the sender return
        // its error.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Returns whether the server has not closed the connection. It may still close it while a request is on its way:
    /// such a request fails, and may be sent again if it is idempotent.
    async fn validate(&self, _: &String, sender: &mut SendRequest<Full<Bytes>>) -> bool {
        !sender.is_closed() && sender.is_ready()
    }

    /// Waits for the end of the response. Its body must be read or dropped.
    async fn passivate(
        &self,
        _: &String,
        sender: &mut SendRequest<Full<Bytes>>,
    ) -> Result<(), Error> {
        Ok(sender.ready().await?)
    }
}

/// A pool of connections.
pub type Pool = AsyncResourcePool<Connections>;

/// Builds a pool of up to `size` connections, on the runtime that polls the caller.
///
/// # Errors
/// Returns an error if `size` is zero.
///
/// # Panics
/// Panics outside a tokio runtime.
pub fn pool(address: impl Into<String>, size: usize) -> Result<Pool, BuildError> {
    const SHORT: Duration = Duration::from_secs(5);
    Pool::builder(Async(Connections), address.into())
        .max_total(size)
        .test_on_borrow(true)
        .create_timeout(SHORT)
        .passivate_timeout(SHORT)
        .max_idle_time(Duration::from_secs(60))
        .build_on(Tokio::current())
}
