//! The sample applications: the same paths in each language, as far as rows ask for them.
//!
//! | path | what it does | in |
//! |---|---|---|
//! | `/` | answers `ok` | all |
//! | `/pid` | answers with the pid of its process | all but Generic |
//! | `/time` | answers with the time of the clock, in seconds | WSGI, Node |
//! | `/sleep/N` | answers after N seconds | WSGI, Node, Rack |
//! | `/big/N` | answers with N bytes | WSGI, Node, Rack |
//! | `/hang` | never returns, and keeps its processor busy | WSGI, Node, Rack |
//! | `/die` | kills its own process | WSGI, Node |
//! | `/half` | breaks off within its answer | WSGI, Node |
//! | `/shut` | shuts down the channel to the server | WSGI |
//! | `/print` | prints garbage to that channel | WSGI |
//! | `/child` | starts a child that sleeps, and answers with its own pid | WSGI |
//! | `/bomb` | forks until the system refuses; answers with its own pid and the number of its children | WSGI |
//! | `/memory` | needs more memory than the process may have | WSGI |
//! | `/daemon` | forks a daemon that keeps all descriptors, writes its pid to the file `daemons`, and kills its own process | WSGI |
//! | `/fork` | forks in the body; the child goes on with the body as its parent does | WSGI, Rack |
//! | `/fork-call` | forks; the child returns from the application as its parent does | WSGI, Rack |
//! | `/evil` | sends the body of its answer after each head, also to HEAD: another answer | Generic |
//! | `/ws` | takes a WebSocket and reads it | ASGI |
//! | `POST /length` | answers with the length of the body | WSGI, Node, Rack |
//! | `POST /late` | answers, while a thread goes on reading the body; bytes that are no `a` go to the file `foreign` | WSGI, Rack |

use crate::app::App;
use crate::kind::Kind;
use std::fs;
use std::io;
use std::path::Path;

pub(crate) fn write(dir: &Path, app: App, kind: Kind) -> io::Result<()> {
    fs::create_dir_all(dir.join("tmp"))?;
    let rack = ("config.ru", include_str!("config.ru"));
    let (file, text) = match app {
        App::Wsgi if kind == Kind::Puma => rack,
        App::Wsgi => ("passenger_wsgi.py", include_str!("passenger_wsgi.py")),
        App::Asgi => ("asgi.py", include_str!("asgi.py")),
        App::Rack => rack,
        App::Node => ("app.js", include_str!("app.js")),
        App::Generic => ("server.py", include_str!("server.py")),
    };
    fs::write(dir.join(file), text)
}
