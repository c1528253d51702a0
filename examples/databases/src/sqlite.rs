//! Connections to a file of SQLite's.

use cabrank::resource_pool::{BuildError, ResourceFactory, ResourcePool};
use rusqlite::{Connection, Error};
use std::path::PathBuf;
use std::time::Duration;

/// Opens connections, and cleans them up.
#[derive(Debug)]
pub struct Connections;

impl ResourceFactory for Connections {
    type Resource = Connection;
    type Metadata = PathBuf; // the file
    type Error = Error;

    fn create(&self, file: &PathBuf) -> Result<Connection, Error> {
        let connection = Connection::open(file)?;
        // Readers and one writer at a time; a second writer waits.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(connection)
    }

    /// Ends a transaction that the borrower left open: otherwise it would keep its lock on the file.
    fn passivate(&self, _: &PathBuf, connection: &mut Connection) -> Result<(), Error> {
        match connection.is_autocommit() {
            true => Ok(()),
            false => connection.execute_batch("ROLLBACK"),
        }
    }
}

/// A pool of connections.
pub type Pool = ResourcePool<Connections>;

/// Builds a pool of up to `size` connections to `file`.
///
/// # Errors
/// Returns an error if `size` is zero.
pub fn pool(file: impl Into<PathBuf>, size: usize) -> Result<Pool, BuildError> {
    Pool::builder(Connections, file.into()).max_total(size).build()
}
