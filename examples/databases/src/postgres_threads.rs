//! Connections to PostgreSQL for threads, by the synchronous `postgres`.

use cabrank::resource_pool::{BuildError, ResourceFactory, ResourcePool};
use postgres::{Client, Config, Error, NoTls};
use std::time::Duration;

/// The time that a test of a connection has.
const TEST: Duration = Duration::from_secs(5);

/// Creates, tests and cleans up connections.
#[derive(Debug)]
pub struct Connections;

impl ResourceFactory for Connections {
    type Resource = Client;
    type Metadata = Config; // where to connect to
    type Error = Error;

    /// Connects. A pool of threads cannot interrupt this call: `Config::connect_timeout` limits it.
    fn create(&self, config: &Config) -> Result<Client, Error> {
        config.connect(NoTls)
    }

    fn validate(&self, _: &Config, client: &mut Client) -> bool {
        client.is_valid(TEST).is_ok()
    }

    /// Ends a transaction that the borrower left open.
    fn passivate(&self, _: &Config, client: &mut Client) -> Result<(), Error> {
        client.batch_execute("ROLLBACK")
    }
}

/// A pool of connections.
pub type Pool = ResourcePool<Connections>;

/// Builds a pool of up to `size` connections. A borrower waits for one for up to 30 seconds.
///
/// # Errors
/// Returns an error if `size` is zero, or no thread can be started for the maintenance.
pub fn pool(config: Config, size: usize) -> Result<Pool, BuildError> {
    const MINUTE: Duration = Duration::from_secs(60);
    Pool::builder(Connections, config)
        .max_total(size)
        .max_wait(MINUTE / 2)
        .test_on_borrow(true)
        .max_idle_time(10 * MINUTE)
        .max_lifetime(30 * MINUTE)
        .lifetime_jitter(2 * MINUTE)
        .build()
}
