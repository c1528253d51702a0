//! The dialogue between tools and a running server.
//!
//! Each side sends one JSON line over the Unix socket `admin` in the instance directory. [`server`] is the server's side, and
//! [`client`] the tools'. [`report`] takes the report of `cabrank status` from the pool and the [`administered`] applications,
//! and [`render`] turns it into text for people.

pub(crate) mod administered;
pub(crate) mod client;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod server;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The beginning of the names of instance directories, by which tools find the servers.
pub(crate) const NAME: &str = "cabrank";

/// The name of the tools' socket in an instance directory.
pub(crate) const SOCKET: &str = "admin";

/// Returns the path of the tools' socket in an instance directory.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join(SOCKET)
}

/// A tool's request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    Stop,
    Restart,
    Detach { pid: u32 },
    Disable { pid: u32 },
    Enable { pid: u32 },
}

/// The server's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Status(Box<report::Report>),
    Done(String),
    Refused(String),
}
