//! The dialogue between tools and a running server.
//!
//! Each side sends one JSON line over the Unix socket `admin` in the instance directory. [`server`] is the server's side, and
//! [`client`] the tools'. [`choice`] finds the server that a tool addresses, and [`list`] shows all. [`stop`] waits for the end of a server. [`restart`] begins a restart, and tells how it goes. [`report`] takes the report of `cabrank status` from the pool and the [`administered`] applications,
//! and [`render`] turns it into text for people.

pub(crate) mod administered;
pub(crate) mod choice;
pub(crate) mod client;
pub(crate) mod list;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod restart;
pub(crate) mod server;
pub(crate) mod stop;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The beginning of the names of instance directories, by which tools find the servers.
pub(crate) const NAME: &str = "cabrank";

/// The beginning of the names of the second directories of servers, by which the tools find them if `TMPDIR` is another one.
pub(crate) const REGISTERED: &str = "cabrank-registered";

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
    Identify,
    Stop,
    Restart,
    /// Asks how the latest restart goes.
    Restarted,
    Detach {
        pid: u32,
    },
    Disable {
        pid: u32,
    },
    Enable {
        pid: u32,
    },
}

/// The names by which the operator addresses a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) name: String,
    /// The directory of the application.
    pub(crate) directory: String,
    /// The places where it listens: `http://127.0.0.1:3000`, `unix:/run/app.sock`.
    pub(crate) addresses: Vec<String>,
}

/// The state of the latest restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Restart {
    Goes,
    /// The new processes are up.
    Done {
        processes: usize,
    },
    /// The new code did not boot.
    Failed {
        error: String,
        /// The number of processes with the old code, which go on serving.
        outdated: usize,
    },
}

/// The server's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Status(Box<report::Report>),
    Identity(Identity),
    Done(String),
    Restart(Restart),
    Refused(String),
}
