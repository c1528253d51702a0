//! Connections to Redis for threads.

use cabrank::resource_pool::{BuildError, ResourceFactory, ResourcePool};
use redis::{Client, Connection, ConnectionLike, RedisError};
use std::time::Duration;

/// The time that a connect, and then each command, has.
const LIMIT: Duration = Duration::from_secs(5);

/// Creates and tests connections.
#[derive(Debug)]
pub struct Connections;

impl ResourceFactory for Connections {
    type Resource = Connection;
    type Metadata = Client; // where to connect to
    type Error = RedisError;

    fn create(&self, client: &Client) -> Result<Connection, RedisError> {
        let connection = client.get_connection_with_timeout(LIMIT)?;
        connection.set_read_timeout(Some(LIMIT))?;
        connection.set_write_timeout(Some(LIMIT))?;
        Ok(connection)
    }

    /// Returns whether the server answers a `PING`. After a command that timed out, its late answer would come first.
    fn validate(&self, _: &Client, connection: &mut Connection) -> bool {
        connection.is_open() && connection.check_connection()
    }
}

/// A pool of connections.
pub type Pool = ResourcePool<Connections>;

/// Builds a pool of up to `size` connections. A borrower waits for one for up to 30 seconds.
///
/// # Errors
/// Returns an error if `size` is zero, or no thread can be started for the maintenance.
pub fn pool(client: Client, size: usize) -> Result<Pool, BuildError> {
    let minute = Duration::from_secs(60);
    let builder = Pool::builder(Connections, client).max_total(size).max_wait(minute / 2);
    builder.test_on_borrow(true).max_idle_time(10 * minute).build()
}
