//! Connections to PostgreSQL for tasks, by `tokio-postgres`.

use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool, BuildError, Builder};
use std::time::Duration;
use tokio_postgres::{Client, Config, Error, NoTls};

/// Creates, tests and cleans up connections.
#[derive(Debug)]
pub struct Connections;

impl AsyncResourceFactory for Connections {
    type Resource = Client;
    type Metadata = Config; // where to connect to
    type Error = Error;

    async fn create(&self, config: &Config) -> Result<Client, Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // The task ends when the client is dropped, or the server closes the connection. The calls of the client
        // return its error.
        tokio::spawn(connection);
        Ok(client)
    }

    /// Ends a query that its borrower gave up. Otherwise the server goes on with it, and keeps the connection until its end.
    async fn destroy_async(&self, _: &Config, client: Client) {
        if !client.is_closed() {
            let _ = client.cancel_token().cancel_query(NoTls).await;
        }
    }

    async fn validate(&self, _: &Config, client: &mut Client) -> bool {
        // An empty query is the shortest round trip.
        !client.is_closed() && client.simple_query("").await.is_ok()
    }

    /// Ends a transaction that the borrower left open.
    async fn passivate(&self, _: &Config, client: &mut Client) -> Result<(), Error> {
        client.batch_execute("ROLLBACK").await
    }
}

/// A pool of connections.
pub type Pool = AsyncResourcePool<Connections>;

/// Returns the options of a pool of up to `size` connections.
///
/// A guard that is dropped leaves its passivation to the next borrower. Until then, a transaction that is still open
/// keeps its locks: end it, or return the connection by `Borrowed::put_back`.
pub fn options(config: Config, size: usize) -> Builder<Async<Connections>, Pool> {
    const SHORT: Duration = Duration::from_secs(5);
    const MINUTE: Duration = Duration::from_secs(60);
    Pool::builder(Async(Connections), config)
        .max_total(size)
        .test_on_borrow(true)
        .create_timeout(SHORT)
        .validate_timeout(SHORT)
        .passivate_timeout(SHORT)
        .max_idle_time(10 * MINUTE)
        .max_lifetime(30 * MINUTE)
        .lifetime_jitter(2 * MINUTE)
}

/// Builds a pool of up to `size` connections, on the runtime that polls the caller.
///
/// # Errors
/// Returns an error if `size` is zero.
///
/// # Panics
/// Panics outside a tokio runtime.
pub fn pool(config: Config, size: usize) -> Result<Pool, BuildError> {
    options(config, size).build_on(Tokio::current())
}
