//! Starts and watches application processes in Ruby, Python and Node, for the [`cabrank`] pool.
//!
//! A *loader* in the application's language starts each process, and reports the socket that it listens on.
//! An [`AppSpawner`] is a [`Spawner`](cabrank::application_pool::Spawner): the pool starts processes
//! through it, lends them to requests, and shuts them down. This crate has no HTTP server and no command line.
//!
//! ```no_run
//! use cabrank_spawner::{Helper, Options, Supervisor, app_type};
//! use std::error::Error;
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     // First of all: helper processes run this binary, too.
//!     let helper = cabrank_spawner::helper();
//!     tokio::runtime::Runtime::new()?.block_on(run(helper))
//! }
//!
//! async fn run(helper: Helper) -> Result<(), Box<dyn Error>> {
//!     let app = app_type::find("/srv/shop".as_ref(), None, None)?;
//!     let root = app.root.clone();
//!     let runtime = tokio::runtime::Handle::current();
//!     let supervisor = Supervisor::start(helper, "shop", None, 1, runtime)?;
//!     let spawner = supervisor.spawner([Options::new(app)])?;
//!     let link = spawner.link();
//!     let pool = cabrank::ApplicationPool::builder(spawner).max(2).build()?;
//!     link.set(&pool);
//!
//!     let session = pool.get_async(&cabrank::PoolOptions::new(&root)).await?;
//!     println!("process {} listens on {:?}", session.process.pid, session.process.endpoint.address);
//!     Ok(())
//! }
//! ```
//!
//! At its end the program closes the pool, and waits until the processes have ended:
//!
//! ```no_run
//! # async fn end(pool: cabrank_spawner::Pool, link: cabrank_spawner::Link, supervisor: cabrank_spawner::Supervisor)
//! # -> Result<(), tokio::task::JoinError> {
//! link.close();
//! tokio::task::spawn_blocking(move || pool.close()).await?;
//! supervisor.all_gone().await;
//! # Ok(()) }
//! ```
//!
//! A process that does not become ready is a [`BootError`] in the pool's error: the output of the application, the line of its
//! own code, and what to try.
//!
//! # A request
//! The [protocol](Protocol) of the process decides how a request reaches it. A [`Session`] has an open connection for
//! [`Protocol::Session`]; for the other two, [`Connections::borrow`](connections::Connections::borrow) lends one that stays open.
//! [`kept`] encodes requests and decodes answers. The example `embedded` is a web server that does so. This is a request in the
//! protocol `session`, with one connection a request:
//!
//! ```no_run
//! use cabrank_spawner::{Session, kept, stream::AppStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn ask(mut session: Session) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
//! let opened = session.opened.take().ok_or("the process speaks another protocol")?;
//! let mut stream = AppStream::finish(opened, &session.process.endpoint.address).await?;
//! let mut request = Vec::new();
//! let pairs = [
//!     ("REQUEST_METHOD", "GET"),
//!     ("PATH_INFO", "/orders"),
//!     ("PASSENGER_CONNECT_PASSWORD", &session.process.password),
//! ];
//! kept::push_head(&mut request, &pairs);
//! stream.write_all(&request).await?; // the body would follow
//! stream.end_output()?;
//! let mut answer = String::new(); // `Status: 200 OK`, further fields, an empty line, and the body
//! stream.read_to_string(&mut answer).await?;
//! # Ok(answer) }
//! ```
//!
//! # The handshake
//! The loader's standard input and output are one socket. Lines that begin with `!> ` belong to the protocol, and all others are
//! the application's output. The whole exchange has the time of [`Options::start_timeout`].
//!
//! ```text
//! loader                                            program
//!
//! !> I have control 1.0                      ──▶
//!                                            ◀──    You have control 1.0
//!                                            ◀──    app_root: /srv/shop
//!                                            ◀──    startup_file: config.ru
//!                                            ◀──    generation_dir: /run/user/1000/shop.17.x/generation-0
//!                                            ◀──    connect_password: …
//!                                            ◀──    (further keys, and an empty line)
//! (loads the application, and listens)
//! !> Ready                                   ──▶
//! !> socket: main;unix:/…/rack.1;session;1   ──▶
//! !> socket: kept;unix:/…/rack.2;kept_session;1 ──▶ (optional)
//! !> pid: 4711                               ──▶    (optional)
//! !>                                         ──▶    requests may come
//! ```
//!
//! A socket's line has its name, its address (`unix:/PATH` or `tcp://127.0.0.1:PORT`), its [`Protocol`], and the number of
//! simultaneous sessions (0: any number). One socket has the name `main`.
//!
//! A loader that fails sends this instead of `!> Ready`, or only writes its message and exits:
//!
//! ```text
//! !> Error                                   ──▶
//! !> html: true                              ──▶    (optional)
//! !>                                         ──▶
//! cannot load such file -- sinatra           ──▶    the message, up to the end of the output
//! ```
//!
//! A loader that replaces itself by another program sends the first line again, and gets the keys again. A byte on standard input,
//! or its end, asks the process to leave, so it never outlives the program.
//!
//! A program without a loader starts by its own command ([`app_type::StartCommand`]). It serves HTTP on the port or Unix
//! socket that a variable names, is ready as soon as it listens there, and leaves on SIGTERM.
//!
//! # The life of a process
//! Each process is started in three steps:
//!
//! 1. A thread that never ends forks, because the kernel kills the process when that thread ends.
//! 2. The child executes the program's own binary, which closes descriptors and changes the user.
//! 3. It executes the interpreter with the loader.
//!
//! Afterwards a task waits for the end of the process, and reports an unexpected one to the pool by the [`Link`]. A
//! process that is to leave has the time of [`Connections::set_drain_time`](connections::Connections::set_drain_time), or until
//! [`Connections::stop_by`](connections::Connections::stop_by). In the last tenth of it SIGQUIT asks the loader for a backtrace,
//! and SIGTERM follows. SIGKILL comes at the end. If the program is killed, its reaper kills what is left.

pub mod app_type;
mod backends;
mod boot_error;
pub mod chain;
mod children;
pub mod connections;
pub mod descriptors;
mod ended;
mod env_file;
mod error;
mod file_rights;
mod forker;
mod handshake;
mod held_socket;
mod helper;
pub mod instance_dir;
mod instance_number;
pub mod kept;
mod leaving;
mod leftovers;
mod lifeline;
mod link;
mod listening;
mod options;
mod orphans;
mod output;
mod preloader;
mod prepare;
pub mod process;
mod process_group;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod random;
mod reaper;
mod release_dirs;
mod removal;
mod reports;
mod running;
mod seen;
mod spawner;
pub mod stream;
mod supervisor;
mod user;

pub use app_type::App;
pub use boot_error::{BootError, Explanation, Frame};
pub use env_file::variables_of_file;
pub use error::{Error, ErrorKind};
pub use file_rights::modified;
pub use handshake::{Address, Protocol};
pub use helper::{Helper, helper};
pub use link::Link;
pub use options::{Check, Finder, Options, SpawnMethod};
pub use output::APP_OUTPUT;
pub use process_group::Leader;
pub use running::{DirIdentity, Running, Standing, running};
pub use spawner::AppSpawner;
pub use supervisor::Supervisor;
pub use user::{User, gid_of, uid_of};

/// The pool of application processes.
pub type Pool = cabrank::ApplicationPool<AppSpawner>;
/// A reference to the pool that does not keep it alive.
pub type WeakPool = cabrank::application_pool::WeakPool<AppSpawner>;
/// One request's hold on a process.
pub type Session = cabrank::Session<AppSpawner>;
