//! The registry of application types: one table. [`find`] searches in it.
//!
//! The startup file identifies the type. If two types match in one directory, the error names both. Files with names that
//! many programs have, such as `main.py`, identify a type only if no other file does. A [`CustomType`] of the user comes
//! before all of them.

mod clue;
mod custom;
mod find;
mod launch;
mod module;
mod node_command;
mod package_json;
mod procfile;
mod shell_words;
mod start_command;
mod text_file;

pub use clue::{Clue, Evidence};
pub use custom::{CustomType, InvalidType};
pub use find::{Search, find};
pub use launch::{App, CustomLoader, Launch};
pub use node_command::StartScript;
pub use start_command::{Place, StartCommand};
pub use text_file::read_text;

/// One kind of application.
#[derive(Debug, PartialEq, Eq)]
pub struct AppType {
    /// The name that `--app-type` takes.
    pub name: &'static str,
    /// The signs of such an application. The first that is found names the startup file.
    pub clues: &'static [Clue],
    /// The beginning of the process title that the server asks for.
    pub title: &'static str,
    /// The variables that name the environment of such an application, in the order in which they count.
    pub environment_variables: &'static [&'static str],
    /// The name for people.
    pub description: &'static str,
    /// Whether the loader can serve several requests at once, each on a thread of its own.
    pub has_threads: bool,
    /// How such an application is served.
    pub service: Service,
}

/// How applications of one type are served.
#[derive(Debug, PartialEq, Eq)]
pub enum Service {
    /// A loader loads the startup file.
    Loader(Loader),
    /// The application's own command starts it.
    Command,
    /// Not at all. The text says what to do instead.
    Instead(&'static str),
}

/// The program that loads applications of one type.
#[derive(Debug, PartialEq, Eq)]
pub struct Loader {
    /// The files of the program, which lie side by side in the instance directory: names and texts. The interpreter
    /// gets the first. They are part of the binary, so that an installation is the binary alone.
    pub files: &'static [(&'static str, &'static str)],
    /// The file of the preloader among them, if the language has one.
    pub preloader: Option<&'static str>,
    /// The interpreter that runs it.
    pub interpreter: Interpreter,
}

impl Loader {
    /// Returns the name of the file that the interpreter gets.
    pub fn entry(&self) -> &'static str {
        self.files[0].0
    }
}

const PYTHON: Loader = Loader {
    files: &[
        ("python-loader.py", include_str!("../loaders/python-loader.py")),
        ("python-own.py", include_str!("../loaders/python-own.py")),
        ("wsgi-greenlets.py", include_str!("../loaders/wsgi-greenlets.py")),
        ("wsgi-request.py", include_str!("../loaders/wsgi-request.py")),
        ("wsgi-answer.py", include_str!("../loaders/wsgi-answer.py")),
        ("wsgi-session.py", include_str!("../loaders/wsgi-session.py")),
        ("wsgi-kept.py", include_str!("../loaders/wsgi-kept.py")),
        ("wsgi-server.py", include_str!("../loaders/wsgi-server.py")),
        ("asgi-request.py", include_str!("../loaders/asgi-request.py")),
        ("asgi-deflate.py", include_str!("../loaders/asgi-deflate.py")),
        ("asgi-websocket.py", include_str!("../loaders/asgi-websocket.py")),
        ("asgi-connection.py", include_str!("../loaders/asgi-connection.py")),
        ("asgi-fork.py", include_str!("../loaders/asgi-fork.py")),
        ("asgi-server.py", include_str!("../loaders/asgi-server.py")),
        ("python-preloader.py", include_str!("../loaders/python-preloader.py")),
    ],
    preloader: Some("python-preloader.py"),
    interpreter: Interpreter::Python,
};

const RACK: Loader = Loader {
    files: &[
        ("rack-loader.rb", include_str!("../loaders/rack-loader.rb")),
        ("rack-boot.rb", include_str!("../loaders/rack-boot.rb")),
        ("rack-fork.rb", include_str!("../loaders/rack-fork.rb")),
        ("rack-passenger.rb", include_str!("../loaders/rack-passenger.rb")),
        ("rack-server.rb", include_str!("../loaders/rack-server.rb")),
        ("rack-request.rb", include_str!("../loaders/rack-request.rb")),
        ("rack-input.rb", include_str!("../loaders/rack-input.rb")),
        ("rack-answer.rb", include_str!("../loaders/rack-answer.rb")),
        ("rack-hijack.rb", include_str!("../loaders/rack-hijack.rb")),
        ("rack-preloader.rb", include_str!("../loaders/rack-preloader.rb")),
    ],
    preloader: Some("rack-preloader.rb"),
    interpreter: Interpreter::Ruby,
};

/// The programs that run loaders. Each has its own option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpreter {
    /// Ruby.
    Ruby,
    /// Python 3.
    Python,
    /// Node.js.
    Node,
}

impl Interpreter {
    /// Returns the number of a server's threads that suits applications of this interpreter on so many cores.
    ///
    /// A Ruby or Python process spends at least as much on a request as the server does, so half of the cores
    /// suffice. A Rack or WSGI process works on one request at a time. With more threads, more of its sessions end on another
    /// thread than that of the request that waits for it, and each of these costs one more wake-up. A Node
    /// process takes many requests at each wake-up.
    pub fn threads(self, cores: usize) -> usize {
        match self {
            Interpreter::Ruby | Interpreter::Python => cores.div_ceil(2),
            Interpreter::Node => cores,
        }
    }

    /// Returns the option of the server that names another program.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Interpreter::Ruby => "--ruby",
            Interpreter::Python => "--python",
            Interpreter::Node => "--nodejs",
        }
    }

    /// Returns the name of the program, which the `PATH` may find.
    pub fn program(self) -> &'static str {
        match self {
            Interpreter::Ruby => "ruby",
            Interpreter::Python => "python3",
            Interpreter::Node => "node",
        }
    }
}

/// The variables that name the environment, in the order in which they count. Application processes get all of them.
pub const ENVIRONMENT_VARIABLES: [&str; 5] =
    ["PASSENGER_APP_ENV", "RAILS_ENV", "RACK_ENV", "WSGI_ENV", "NODE_ENV"];

/// The variables that name the path below which the application is served, if there is one.
pub(crate) const BASE_URI_VARIABLES: [&str; 3] =
    ["PASSENGER_BASE_URI", "RACK_BASE_URI", "RAILS_RELATIVE_URL_ROOT"];

/// Applications that start by a command.
const GENERIC: AppType = AppType {
    name: "generic",
    clues: &[Clue::Procfile],
    title: "App",
    environment_variables: &[],
    description: "start command",
    has_threads: false,
    service: Service::Command,
};

/// All types.
pub const REGISTRY: [AppType; 8] = [
    AppType {
        name: "rack",
        clues: &[Clue::File("config.ru")],
        title: "RubyApp",
        environment_variables: &["RACK_ENV", "RAILS_ENV"],
        description: "Ruby (Rack)",
        has_threads: true,
        service: Service::Loader(RACK),
    },
    AppType {
        name: "wsgi",
        clues: &[Clue::File("passenger_wsgi.py"), Clue::File("wsgi.py")],
        title: "PythonApp",
        environment_variables: &["WSGI_ENV"],
        description: "Python (WSGI)",
        has_threads: true,
        service: Service::Loader(PYTHON),
    },
    AppType {
        name: "asgi",
        clues: &[Clue::File("asgi.py")],
        title: "PythonApp",
        environment_variables: &["WSGI_ENV"],
        description: "Python (ASGI)",
        has_threads: false,
        service: Service::Loader(PYTHON),
    },
    // The loader finds out whether the application is WSGI or ASGI.
    AppType {
        name: "python",
        clues: &[
            Clue::CommonFile("manage.py"),
            Clue::CommonFile("app.py"),
            Clue::CommonFile("main.py"),
        ],
        title: "PythonApp",
        environment_variables: &["WSGI_ENV"],
        description: "Python (WSGI or ASGI)",
        has_threads: true,
        service: Service::Loader(PYTHON),
    },
    AppType {
        name: "node",
        clues: &[
            Clue::PackageStart,
            Clue::File("app.js"),
            Clue::CommonFile("server.js"),
            Clue::CommonFile("index.js"),
            Clue::PackageMain,
        ],
        title: "NodeApp",
        environment_variables: &["NODE_ENV"],
        description: "Node.js",
        has_threads: false,
        service: Service::Loader(Loader {
            files: &[
                ("node-loader.js", include_str!("../loaders/node-loader.js")),
                ("node-client.js", include_str!("../loaders/node-client.js")),
                ("node-answer.js", include_str!("../loaders/node-answer.js")),
                ("node-kept.js", include_str!("../loaders/node-kept.js")),
                ("node-exceptions.js", include_str!("../loaders/node-exceptions.js")),
                ("node-late.js", include_str!("../loaders/node-late.js")),
                ("node-listen.js", include_str!("../loaders/node-listen.js")),
                ("node-pm2.js", include_str!("../loaders/node-pm2.js")),
                ("node-refusal.js", include_str!("../loaders/node-refusal.js")),
                ("node-traces.js", include_str!("../loaders/node-traces.js")),
                ("node-unserved.js", include_str!("../loaders/node-unserved.js")),
                // Otherwise Node takes one of a directory above, where any user may put one.
                ("package.json", "{ \"type\": \"commonjs\" }\n"),
            ],
            preloader: None,
            interpreter: Interpreter::Node,
        }),
    },
    // Every other type comes first: many applications for Heroku have a `Procfile` and a startup file.
    GENERIC,
    // Rails since version 3 has this file, too, but it also has a `config.ru`.
    AppType {
        name: "classic-rails",
        clues: &[Clue::CommonFile("config/environment.rb")],
        title: "RailsApp",
        environment_variables: &["RAILS_ENV", "RACK_ENV"],
        description: "Ruby on Rails 1 and 2",
        has_threads: false,
        service: Service::Instead(
            "Rails 3 and newer has a file config.ru: restore it. Rails 2.3 is served with a config.ru of two lines, \
             `require File.expand_path('config/environment', File.dirname(__FILE__))` and \
             `run ActionController::Dispatcher.new`, and with its Ruby as --ruby. An older one starts its own server: \
             --start-command 'script/server --port $PORT'.",
        ),
    },
    AppType {
        name: "meteor",
        clues: &[Clue::File(".meteor")],
        title: "MeteorApp",
        environment_variables: &["NODE_ENV"],
        description: "Meteor",
        has_threads: false,
        service: Service::Instead(
            "Start Meteor's own server with --start-command 'meteor run --port $PORT'. For production, run \
             `meteor build --directory ../built`, `npm install` in ../built/bundle/programs/server, and \
             `cabrank start ../built/bundle --startup-file main.js` with ROOT_URL and MONGO_URL set.",
        ),
    },
];
