//! The applications.

use Language::{Node, Python, Ruby};

/// The language of an application, which decides how its framework is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    /// The gems are these packages of Debian.
    Ruby(&'static [&'static str]),
    /// `requirements.txt` names the packages, in a virtual environment that all share.
    Python,
    /// `package.json` names the packages.
    Node,
}

/// How an application is asked over a WebSocket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WebSocket {
    /// It sends each message on this path back.
    Echo(&'static str),
    /// It has Action Cable of Rails, and a channel `ChatChannel`, whose messages all subscribers get.
    Cable,
    /// This program of the application gets the server's port, and prints `ok`.
    Client(&'static str),
}

/// One application. The files below `checks/applications/NAME` are copied to its directory, where it runs.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) language: Language,
    /// The name of its directory.
    pub(crate) place: &'static str,
    /// Scripts that run there before and after the files are copied.
    pub(crate) before: &'static [&'static str],
    pub(crate) after: &'static [&'static str],
    pub(crate) is_quick: bool,
    pub(crate) processes: usize,
    /// Further options of `cabrank start`.
    pub(crate) options: &'static [&'static str],
    /// A part of the page for an exception.
    pub(crate) error_page: &'static str,
    /// Further pages, each with a part of its text.
    pub(crate) pages: &'static [(&'static str, &'static str)],
    pub(crate) websocket: Option<WebSocket>,
    /// Pages below `/blog` (`--base-uri`), each with a part of its answer, whose fields have small names.
    pub(crate) below: &'static [(&'static str, &'static str)],
}

const fn new(
    language: Language,
    name: &'static str,
    title: &'static str,
    error_page: &'static str,
) -> Application {
    Application {
        name,
        title,
        language,
        place: name,
        before: &[],
        after: &[],
        is_quick: false,
        processes: 2,
        options: &[],
        error_page,
        pages: &[],
        websocket: None,
        below: &[],
    }
}

/// Makes an application of Rails, without the parts that it can do without.
pub(crate) const NEW_RAILS: &str = "test -e app || rails new . -q -d sqlite3 \
    --skip-bundle --skip-git --skip-javascript --skip-webpack-install --skip-spring --skip-bootsnap \
    --skip-listen --skip-test --skip-system-test --skip-sprockets";

/// All applications, in the order of the page.
pub(crate) const APPLICATIONS: &[Application] = &[
    Application {
        is_quick: true,
        ..new(Ruby(&["ruby-sinatra"]), "sinatra", "Sinatra", "RuntimeError at &#x2F;error")
    },
    Application {
        // Rails accepts no application of the name `rails`.
        place: "blog",
        before: &[NEW_RAILS],
        after: &[
            "test -e app/models/post.rb || bin/rails generate scaffold post title:string --skip-routes",
            "RAILS_ENV=development bin/rails db:migrate",
            "RAILS_ENV=production bin/rails db:migrate",
        ],
        options: &["--start-timeout", "60"],
        websocket: Some(WebSocket::Cable),
        pages: &[("/posts", "New Post")],
        below: &[
            ("/blog/posts", "href=\"/blog/posts/new\""),
            ("/blog/posts/new", "action=\"/blog/posts\""),
            ("/blog/posts", "href=\"/blog/stylesheets/application.css\""),
            ("/blog/below", "\nlocation: http://localhost/blog/posts\n"),
            ("/blog/below", "path=/blog"),
        ],
        ..new(
            Ruby(&["ruby-rails", "ruby-sqlite3"]),
            "rails",
            "Rails",
            "Action Controller: Exception caught",
        )
    },
    Application {
        is_quick: true,
        ..new(Python, "flask", "Flask", "The server encountered an internal error")
    },
    Application {
        after: &["../venv/bin/python manage.py migrate"],
        pages: &[
            ("/admin/login/", "Django administration"),
            ("/static/admin/css/base.css", "--primary"),
        ],
        below: &[
            ("/blog/admin", "\nlocation: /blog/admin/\n"),
            ("/blog/admin/", "\nlocation: /blog/admin/login/?next=/blog/admin/\n"),
            ("/blog/admin/login/", "href=\"/blog/static/admin/css/base.css\""),
            ("/blog/admin/login/", "action=\"/blog/admin/login/\""),
            ("/blog/admin/login/", "set-cookie: csrftoken="),
            ("/blog/static/admin/css/base.css", "--primary"),
        ],
        ..new(Python, "django", "Django", "RuntimeError at /error")
    },
    Application {
        websocket: Some(WebSocket::Echo("/ws")),
        pages: &[("/docs", "swagger")],
        below: &[
            ("/blog/docs", "'/blog/openapi.json'"),
            ("/blog/openapi.json", "\"url\":\"/blog\""),
            ("/blog/log/", "\nlocation: http://localhost/blog/log\n"),
            ("/blog/below", "\nlocation: http://localhost/blog/log\n"),
            ("/blog/below", "path=/blog"),
            ("/blog/files/style.css", "--primary"),
        ],
        ..new(Python, "fastapi", "FastAPI", "RuntimeError")
    },
    Application {
        websocket: Some(WebSocket::Echo("/ws")),
        ..new(Python, "starlette", "Starlette", "RuntimeError")
    },
    Application {
        is_quick: true,
        below: &[
            ("/blog/below", "\nlocation: /blog/log\n"),
            ("/blog/below", "path=/blog"),
            ("/blog/files", "\nlocation: /blog/files/\n"),
            ("/blog/files/style.css", "--primary"),
        ],
        ..new(Node, "express", "Express", "Error: broken on purpose")
    },
    new(Node, "fastify", "Fastify", "broken on purpose"),
    new(Node, "koa", "Koa", "Internal Server Error"),
    Application {
        after: &["NEXT_TELEMETRY_DISABLED=1 NODE_ENV=production npx next build"],
        ..new(Node, "next", "Next", "__next_error__")
    },
    Application {
        // Long polling needs all requests of a client in one process.
        processes: 1,
        websocket: Some(WebSocket::Client("client.js")),
        ..new(Node, "socketio", "Socket.IO", "Error: broken on purpose")
    },
];
