//! [tower](https://docs.rs/tower) layers for [`cabrank::execution`]: each request is an execution.
//!
//! - [`ExecutorLayer`] runs the hooks of an [`Executor`](cabrank::execution::Executor) around each request.
//! - [`ReloaderLayer`] does so too, and reloads changed code before the request.
//! - [`DebugLocks`] and [`DebugLocksLayer`] answer with the dump of the load interlock, also while every request hangs.
//!
//! An execution ends with the response's *body*: when its last frame was read, or when the response is dropped. So a
//! streamed body still runs inside the execution, and no reload comes in its middle. A request whose client goes away
//! drops its future or its body, and that ends the execution, too. The end waits for no
//! other request, unless a hook does.
//!
//! ```
//! use axum::{Router, routing::get};
//! use cabrank::execution::interlock::Loaded;
//! use cabrank::execution::{Executor, Interlock, Reloader};
//! use cabrank_tower::{DebugLocks, ReloaderLayer};
//! use std::sync::Arc;
//!
//! # let file = std::env::temp_dir().join(format!("cabrank-tower-{}.txt", std::process::id()));
//! # std::fs::write(&file, "hello")?;
//! let interlock = Interlock::new();
//! let executor = Executor::builder().interlock(interlock.clone()).build();
//! let page = Arc::new(Loaded::new());
//! let (path, loaded) = (file.clone(), page.clone());
//! let reloader = Reloader::builder(executor)
//!     .watch_files([&file])
//!     .to_prepare(move |loading| Ok(loaded.set(std::fs::read_to_string(&path)?, loading)))
//!     .build()?;
//! reloader.prepare()?;
//!
//! let shared = interlock.clone();
//! let handler = async move || {
//!     // The request is inside an execution, which this joins.
//!     let text = shared.run(|running| page.get(running).map(|page| page.clone()));
//!     text.ok().flatten().unwrap_or_default()
//! };
//! let app: Router = Router::new()
//!     .route("/", get(handler))
//!     .layer(ReloaderLayer::new(reloader))
//!     // Outside the layer, so that it needs no execution.
//!     .route_service(DebugLocks::PATH, DebugLocks::new(interlock));
//! # drop(app);
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In the handler
//! The layer calls the inner service, and polls and drops its future and its body, while the executor is active on that
//! thread. A nested [`Executor::wrap`](cabrank::execution::Executor::wrap) or
//! [`Interlock::run`](cabrank::execution::Interlock::run) joins the request's execution: it runs no hooks and never
//! waits. A task that the handler spawns is outside; see [`Running::permit_loads`] for a wait for one.
//!
//! Where the executor has an interlock, the execution has the name of its request (`GET /users`) in dumps and errors,
//! from the call of the inner service on. While it waits to begin or to reload, it has only its number.
//!
//! An error of the inner service or of its body, and a panic, pass through. The executor's reporter gets each of them,
//! as a failure of the execution's body.
//!
//! # When an execution cannot begin
//! After a failed reload, a failing hook or an expired time limit, the layer answers without a call of the inner
//! service. The status is 503 (Service Unavailable) after a wait, and otherwise 500. The default answer does
//! not contain the failure, which goes to the executor's reporter. [`ReloaderLayer::show_errors`] adds it during
//! development, and [`ReloaderLayer::on_error`] sets another answer.
//!
//! # Limits
//! - A connection that is upgraded, to a WebSocket for example, is outside: its response ends before. Wrap the handling
//!   of each message.
//! - A response that is neither read nor dropped keeps its execution, and each reload waits for it. A time limit
//!   ([`InterlockBuilder::acquire_timeout`](cabrank::execution::interlock::InterlockBuilder::acquire_timeout)) ends the
//!   waits of the others, and the page of [`DebugLocks`] names the request.
//!
//! # Origin
//! Rails' middlewares `ActionDispatch::Executor`, `ActionDispatch::Reloader` and `ActionDispatch::DebugLocks`.
//!
//! [`Running::permit_loads`]: cabrank::execution::interlock::Running::permit_loads

mod body;
mod debug_locks;
mod future;
mod inside;
mod layers;
mod refusal;

pub use body::ExecutionBody;
pub use debug_locks::{DebugLocks, DebugLocksFuture, DebugLocksLayer, DebugLocksService};
pub use future::ResponseFuture;
pub use layers::{ExecutorLayer, ExecutorService, ReloaderLayer, ReloaderService};
