//! Starts a server and asks it as a client would. End-to-end tests, checks and measurements share this.
//!
//! | file | what it has |
//! |---|---|
//! | `binary.rs` | the binary `cabrank`: its commands, in an environment that chooses no option |
//! | `server.rs` | a server that runs: its address, log, status and processes; dropping it ends them |
//! | `log.rs` | the lines that a server prints |
//! | `processes.rs` | the processes of the machine: relations, memory, times, signals |
//! | `http/` | the client: `client.rs` sends and receives, `reply.rs` and `body.rs` parse, `load.rs` repeats |
//! | `websocket.rs` | a WebSocket that expects an echo |
//! | `samples.rs` | small applications in a temporary directory |
//! | `wait.rs` | polls for a change |
//!
//! A function returns an error as text that a check can report. A test unwraps it.

pub mod binary;
pub mod http;
pub mod log;
pub mod processes;
pub mod samples;
pub mod server;
pub mod wait;
pub mod websocket;

pub use binary::Binary;
pub use http::{Client, Load, Reply};
pub use processes::Signal;
pub use server::Server;
pub use wait::until;
