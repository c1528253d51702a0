//! A web server that reloads its templates and its Lua plugin when their files change.
//!
//! `cargo run -p reload_server -- examples/reload_server/site`, and see the README beside this.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Html;
use axum::{Router, routing::get};
use cabrank::execution::interlock::Loaded;
use cabrank::execution::{BoxError, Executor, Interlock, Reloader};
use cabrank_tower::{DebugLocks, ReloaderLayer};
use minijinja::{Environment, context};
use mlua::{Function, Lua};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

/// The part of the program that is reloaded: templates, and a plugin.
struct Site {
    templates: Environment<'static>,
    greet: Function,
    /// Keeps the plugin's functions alive.
    _lua: Lua,
}

impl Site {
    fn load(dir: &std::path::Path) -> Result<Site, BoxError> {
        // A directory that is replaced by another one is read as one of the two.
        let dir = dir.canonicalize().map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut templates = Environment::new();
        for file in fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))? {
            let path = file?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".html") {
                templates.add_template_owned(name.to_owned(), read(&path)?)?;
            }
        }
        let lua = Lua::new();
        let plugin = read(&dir.join("plugin.lua"))?;
        let greet = lua.load(plugin).set_name("@plugin.lua").eval()?;
        Ok(Site { templates, greet, _lua: lua })
    }

    fn render(&self, template: &str, visitor: &str) -> Result<String, BoxError> {
        let greeting: String = self.greet.call(visitor)?;
        Ok(self.templates.get_template(template)?.render(context! { visitor, greeting })?)
    }
}

/// Reads a file. The error names it.
fn read(path: &std::path::Path) -> Result<String, BoxError> {
    Ok(fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?)
}

#[derive(Clone)]
struct App {
    executor: Executor,
    site: Arc<Loaded<Site>>,
}

async fn index(
    State(app): State<App>,
    visitor: Option<Path<String>>,
) -> Result<Html<String>, (StatusCode, String)> {
    let visitor = visitor.map_or("stranger".to_owned(), |Path(visitor)| visitor);
    // The request is inside an execution already: this only fetches its share of the loaded code.
    let html = app.executor.wrap(|execution| {
        execution.get(&app.site).ok_or("the site is not loaded")?.render("index.html", &visitor)
    });
    html.map(Html).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut args = env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "site".to_owned()));
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());

    // Requests share the interlock; a reload has it alone. No wait for it takes longer than ten seconds.
    let interlock = Interlock::builder().acquire_timeout(Duration::from_secs(10)).build();
    let executor = Executor::builder()
        .interlock(interlock.clone())
        .reporter(|error| eprintln!("{error}"))
        .build();
    let site = Arc::new(Loaded::new());
    let loaded = site.clone();
    let reloader = Reloader::builder(executor.clone())
        .watch_files([&dir])
        .to_prepare(move |loading| {
            loaded.set(Site::load(&dir)?, loading);
            Ok(())
        })
        .build()?;
    if reloader.prepare().is_err() {
        std::process::exit(1); // the reporter has said why
    }

    let app = Router::new()
        .route("/", get(index))
        .route("/{visitor}", get(index))
        .with_state(App { executor, site })
        .layer(ReloaderLayer::new(reloader).show_errors())
        // Outside the layer, so that it answers while every request hangs.
        .route_service(DebugLocks::PATH, DebugLocks::new(interlock));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
