//! What tools ask a running agent, and what it says.
//!
//! The talk is one JSON line each way over the Unix socket `admin` in the instance directory:
//! [`server`] is the agent's side, [`client`] the tools'. [`report`] is what `status` tells, [`render`]
//! its text for people.

pub(crate) mod client;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod server;

use serde::{Deserialize, Serialize};

/// What a tool asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    Stop,
    Restart,
    Detach { pid: u32 },
}

/// What the agent answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Status(Box<report::Report>),
    Done(String),
    Refused(String),
}
