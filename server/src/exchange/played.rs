//! A client and the processes of an application, as tests play them: both sides of an exchange, without a pool.
//!
//! The time is paused, and time-outs of clients pass when a test says so. A test waits for what must happen
//! ([`eventually`]), so that it depends neither on the machine's pace nor on its load.

mod waits;

use crate::client;
use crate::configuration::ServerLimits;
use crate::configuration::limits::Timeouts;
use crate::connection::core::Core;
use crate::connection::stream::Stream;
use crate::connection::watched::Connection;
use crate::connection::{requests, serve};
use crate::exchange::buffers::Buffers;
use crate::exchange::endings::Endings;
use crate::exchange::processes::{Hold, Processes};
use crate::exchange::served::Served;
use crate::exchange::serving::Serving;
use crate::request::networks::Networks;
use crate::request::peer::{Peer, Scheme};
use crate::request::spool::Directory;
use cabrank::application_pool::{GetError, Identifier};
use cabrank_spawner::connections::{Connections, IdleEnd};
use cabrank_spawner::process::{AppConnection, AppInfo};
use cabrank_spawner::stream::Opened;
use cabrank_spawner::{Address, Leader, Protocol};
use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
pub(crate) use waits::{eventually, read_rest, read_until, within, within_a_play};

/// The events of the requests' holds, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Notes {
    fn add(&self, note: &'static str) {
        self.0.lock().unwrap().push(note);
    }
    pub(crate) fn read(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// The processes that a test plays. Each is given to one request.
#[derive(Debug, Default)]
pub(crate) struct Played {
    free: Mutex<VecDeque<AppConnection>>,
    notes: Notes,
    pub(crate) endings: Arc<Endings>,
}

impl Played {
    pub(crate) fn get(&self) -> Result<Hold, GetError> {
        let connection = self.free.lock().unwrap().pop_front().ok_or(GetError::Closed)?;
        Ok(Hold::Played(connection, Token(self.notes.clone())))
    }
    pub(crate) fn note(&self, note: &'static str) {
        self.notes.add(note);
    }
}

/// Notes the end of a hold.
#[derive(Debug)]
pub(crate) struct Token(Notes);

impl Token {
    pub(crate) fn note(&self, note: &'static str) {
        self.0.add(note);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.add("ended");
    }
}

/// The limits of a scene. Bodies of more than 16 bytes are passed on as they come, and answers wait for their client.
pub(crate) const LIMITS: ServerLimits = ServerLimits {
    timeouts: Timeouts {
        keep_alive: Duration::from_secs(60),
        header: Duration::from_secs(60),
        client: Duration::from_secs(60),
        upgraded: Duration::from_secs(30),
    },
    min_client_rate: 500,
    max_header_size: 8192,
    max_body: MAX_BODY,
    buffer_request: 16,
    max_buffered_request: 0,
    max_buffered_answer: 0,
};

/// `--max-body` of most scenes.
pub(crate) const MAX_BODY: u64 = 1000;
/// `--max-request-time` of a scene: so long that it passes only where a test says so.
pub(crate) const MAX_REQUEST_TIME: Duration = Duration::from_secs(1_000_000_000);

/// One client's connection, and the processes that its requests may get.
pub(crate) struct Scene {
    core: Arc<Core>,
    peer: Peer,
    served: JoinHandle<()>,
    now: Duration,
    pub(crate) notes: Notes,
    /// The answers that are about to end.
    pub(crate) endings: Arc<Endings>,
    /// The client's end of its connection.
    pub(crate) client: UnixStream,
    pub(crate) connections: Connections,
    identifier: Identifier,
    processes: Vec<Process>,
    _dir: TempDir,
}

/// The parts of a scene that few tests change.
pub(crate) struct Setting {
    pub(crate) protocol: Protocol,
    /// The number of requests that a process takes at once; 0: any number.
    pub(crate) concurrency: usize,
    /// The number of processes.
    pub(crate) number: usize,
    pub(crate) trusted_proxies: Networks,
    pub(crate) max_body: u64,
    pub(crate) bodies: Bodies,
    /// Whether the server lacks what it needs for a connection to a process (`session`).
    pub(crate) lacks_connections: bool,
}

impl Setting {
    pub(crate) fn new(protocol: Protocol, concurrency: usize, number: usize) -> Setting {
        Setting {
            protocol,
            concurrency,
            number,
            trusted_proxies: Networks::default(),
            max_body: MAX_BODY,
            bodies: Bodies::PassedOn,
            lacks_connections: false,
        }
    }
}

/// The files of a scene's bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bodies {
    /// There are none: bodies are passed on.
    PassedOn,
    /// They cannot be written.
    NoSpace,
}

/// A process that a test plays: a living child, and its end of connections.
pub(crate) struct Process {
    child: Living,
    info: Arc<AppInfo>,
    door: Door,
}

enum Door {
    Own(Option<UnixStream>),
    Listener(UnixListener),
}

impl Scene {
    /// Begins a connection whose requests may get so many processes, one after the other.
    pub(crate) fn new(protocol: Protocol, concurrency: usize, number: usize) -> Scene {
        Scene::with(Setting::new(protocol, concurrency, number))
    }

    /// Begins a connection in this setting.
    pub(crate) fn with(setting: Setting) -> Scene {
        let Setting { protocol, concurrency, number, trusted_proxies, .. } = setting;
        let connections = Connections::new(Handle::current(), 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (notes, identifier) = (Notes::default(), Identifier::from_u64(1));
        let (mut free, mut processes) = (VecDeque::new(), Vec::new());
        for index in 0..number {
            let child = Living::new();
            let path = dir.path().join(index.to_string());
            let address = Address::Unix(path.clone());
            let endpoint = connections.endpoint(identifier, address, IdleEnd::Server);
            let mut info = AppInfo::new(
                Arc::new(Leader::of_child(&child.0)),
                endpoint,
                protocol,
                concurrency,
                "secret".into(),
                connections.clone(),
            );
            info.takes_upgrades = true;
            let info = Arc::new(info);
            let (opened, door) = if protocol.keeps_connections() {
                (None, Door::Listener(UnixListener::bind(&path).unwrap()))
            } else {
                let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                for end in [&ours, &theirs] {
                    end.set_nonblocking(true).unwrap();
                }
                let theirs = UnixStream::from_std(theirs).unwrap();
                let opened = Some(Opened::Now(ours)).filter(|_| !setting.lacks_connections);
                (opened, Door::Own(Some(theirs)))
            };
            free.push_back(AppConnection { process: Arc::clone(&info), opened });
            processes.push(Process { child, info, door });
        }
        let endings = Arc::new(Endings::default());
        let played =
            Played { free: Mutex::new(free), notes: notes.clone(), endings: Arc::clone(&endings) };
        let (max_buffered_request, place) = match setting.bodies {
            Bodies::PassedOn => (0, dir.path()),
            Bodies::NoSpace => (1 << 20, Path::new("/no/such/place")),
        };
        let limits = ServerLimits { max_body: setting.max_body, max_buffered_request, ..LIMITS };
        let serving = Serving {
            limits,
            trust: trusted_proxies.into(),
            buffers: Buffers::new(Directory::Fixed(place.into()), &limits),
            connections: connections.clone(),
            applications: vec![Arc::new(Served {
                processes: Processes::Played(played),
                max_request_time: Some(MAX_REQUEST_TIME),
                retries: true,
                underscores: false,
                base_uri: String::new(),
                has_noted_outside: false.into(),
                shows_details: false,
            })],
        };
        let core = Arc::new(Core::new(Arc::new(serving), 0));
        let follows = Arc::clone(&core);
        tokio::spawn(async move { follows.sweep.follow(&follows.serving.connections).await });
        let (client, ours) = UnixStream::pair().unwrap();
        // So that the server, and not the kernel, has what the client does not read.
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        let address = ([127, 0, 0, 1], 80).into();
        let peer =
            Peer { remote: address, local: address, scheme: Scheme::Http, is_reported: false };
        let served = Arc::clone(&core);
        let served = tokio::spawn(async move {
            let (protocol, counts) = (client::Protocol::Http1, mpsc::channel(1).0);
            serve::serve(&served, Stream::Unix(ours), peer, protocol, counts).await;
        });
        Scene {
            core,
            peer,
            served,
            now: Duration::ZERO,
            notes,
            endings,
            client,
            connections,
            identifier,
            processes,
            _dir: dir,
        }
    }

    /// Waits until the next process gets its request, with this text in it, and returns its end of the connection.
    pub(crate) async fn request(&mut self, index: usize, text: &[u8]) -> UnixStream {
        let mut stream = match &mut self.processes[index].door {
            Door::Own(stream) => stream.take().expect("asked once"),
            Door::Listener(listener) => {
                within("a process gets a connection", listener.accept()).await.unwrap().0
            }
        };
        read_until(&mut stream, text).await;
        stream
    }

    /// Kills a process, whose end the server learns by the connection first.
    pub(crate) fn kill(&mut self, index: usize) {
        let child = &mut self.processes[index].child.0;
        child.kill().unwrap();
        // A zombie is dying, and its pid is not reused.
        let pid = child.id();
        let stat = format!("/proc/{pid}/stat");
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z") {
            std::thread::yield_now();
        }
    }

    /// Notices the end of a process, as its lifeline does.
    pub(crate) fn notice(&self, index: usize) {
        self.connections.set_gone(&self.processes[index].info.endpoint);
    }

    /// Lets a time pass for time-outs of clients and of requests.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.core.sweep.set_now(self.now);
    }

    /// Begins to stop the server.
    pub(crate) fn stop(&self) {
        self.core.sweep.close();
    }

    /// Waits until the server has closed the connection, within a time of its clock that is shorter than any time-out of an
    /// idle connection.
    ///
    /// The client has seen the end of the server's output, or has left: at most, the server still reads what it sends.
    pub(crate) async fn closes(&mut self) -> bool {
        let mut left = LIMITS.timeouts.keep_alive / 2;
        eventually(|| {
            let step = left.min(Duration::from_secs(1));
            left -= step;
            self.pass(step);
            self.has_closed()
        })
        .await
    }

    /// Returns the size of the future that serves requests.
    pub(crate) fn size_of_a_request(&self) -> usize {
        let (stream, _) = UnixStream::pair().unwrap();
        let watch = self.core.sweep.watch();
        let counts = mpsc::channel(1).0;
        let mut client = Connection::new(
            Stream::Unix(stream),
            self.peer,
            client::Protocol::Http1,
            watch,
            &LIMITS,
            counts,
        );
        size_of_val(&requests::serve(&self.core, &mut client, false))
    }

    /// Returns whether the server has closed the client's connection.
    pub(crate) fn has_closed(&self) -> bool {
        self.served.is_finished()
    }

    /// Returns the number of idle connections to processes.
    pub(crate) fn idle(&self) -> usize {
        self.connections.idle_counts().get(&self.identifier).copied().unwrap_or(0)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self, index: usize) -> bool {
        self.processes[index].child.0.try_wait().unwrap().is_some()
    }

    /// Returns whether the process counts as one that has answered.
    pub(crate) fn has_answered(&self, index: usize) -> bool {
        self.processes[index].info.has_answered()
    }
}

/// A real process, in a group of its own: the exchange looks at its state, and may signal it.
///
/// It ends when it is dropped, and also with the test's process: its input ends then.
struct Living(Child);

impl Living {
    fn new() -> Living {
        let mut cat = Command::new("cat");
        let cat = cat.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        Living(cat.spawn().unwrap())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
