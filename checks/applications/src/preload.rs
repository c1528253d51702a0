//! Measures what preloading gains: memory of 1, 2 and 6 processes, and the time until another process is ready.
//!
//! Django comes from PyPI, Rails from Debian's package `ruby-rails`; without it, its rows are left out. Both run in
//! production, with a table of a SQLite database. Memory is the PSS of all processes of the application and of its
//! preloader, after 20 requests a process. The time is that from the end of the only process to the answer of
//! another one, the median of 7.

use crate::catalog::NEW_RAILS;
use crate::install::{NEW_VENV, SECRET, make, read, shell, write};
use cabrank_checks_harness::processes::{proportional_memory, signal};
use cabrank_checks_harness::{Binary, Server, Signal, server, until};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIZES: [usize; 3] = [1, 2, 6];
const TRIES: usize = 7;
const PATIENCE: Duration = Duration::from_secs(60);
/// The page that both applications have.
const PATH: &str = "/posts";
const BEGIN: &str = "<!-- cargo xtask preload: begin -->\n";
const END: &str = "<!-- cargo xtask preload: end -->\n";
const HEAD: &str = "| application | spawn method | 1 process | 2 processes | 6 processes | another one is ready after |\n|---|---|---|---|---|---|\n";

const MODELS: &str = "from django.db import models
class Post(models.Model):
    title = models.CharField(max_length=80)
";
const URLS: &str = r#"from django.contrib import admin
from django.http import HttpResponse
from django.urls import path
from posts.models import Post

urlpatterns = [
    path("admin/", admin.site.urls),
    path("posts", lambda request: HttpResponse(f"{Post.objects.count()} posts")),
]
"#;
const SETTINGS: &str = r#"sed -i site_/settings.py \
    -e 's/INSTALLED_APPS = \[/&"posts", /' -e 's/^DEBUG = .*/DEBUG = False/' -e 's/^ALLOWED_HOSTS = .*/ALLOWED_HOSTS = ["*"]/'"#;
const GEMFILE: &str = "source \"https://rubygems.org\"\ngem \"rails\"\ngem \"sqlite3\"\n";
const WARMUP: &str =
    "warmup { |app| 2.times { Rack::MockRequest.new(app).get(\"http://localhost/posts\") } }\n";

/// An application, ready to start.
struct Project {
    name: &'static str,
    directory: PathBuf,
    options: Vec<String>,
}

/// Prints the table. With `--write`, also writes it into `docs/preloaders.md`.
pub(crate) fn run(root: &Path, args: Vec<String>) -> Result<(), String> {
    if let Some(arg) = args.iter().find(|arg| *arg != "--write") {
        return Err(format!("cargo xtask preload [--write]: there is no option {arg}"));
    }
    let binary = Binary::new(root.join("target/release/cabrank")).find()?;
    let place = root.join("target/preload");
    make(&place)?;
    let mut table = HEAD.to_owned();
    print!("{table}");
    let has_rails = shell(&place, &[], &["rails --version"]).is_ok();
    for name in ["Django", "Rails", "Rails with `warmup`"] {
        let project = match name {
            "Django" => django(&place)?,
            _ if !has_rails => {
                eprintln!("{name} is left out: apt-get install ruby-rails ruby-sqlite3");
                continue;
            }
            _ => rails(name, &place, if name == "Rails" { "" } else { WARMUP })?,
        };
        let rows = measure(&binary, &project)?;
        print!("{rows}");
        table += &rows;
    }
    if args.is_empty() {
        return Ok(());
    }
    let page = root.join("docs/preloaders.md");
    let text = read(&page)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("docs/preloaders.md has no table")?;
    let (_, after) = rest.split_once(END).ok_or("the table of docs/preloaders.md has no end")?;
    write(&page, [before, BEGIN, &table, END, after].concat())
}

fn django(place: &Path) -> Result<Project, String> {
    let directory = place.join("django");
    if !directory.exists() {
        make(&directory)?;
        let scripts = [
            NEW_VENV,
            "../venv/bin/python -m pip install --quiet 'django==5.2.*'",
            "../venv/bin/python -m django startproject site_ .",
            "../venv/bin/python manage.py startapp posts",
            "printf '%s' \"$MODELS\" >posts/models.py",
            "printf '%s' \"$URLS\" >site_/urls.py",
            SETTINGS,
            "../venv/bin/python manage.py makemigrations posts",
            "../venv/bin/python manage.py migrate",
        ];
        shell(&directory, &[("MODELS", MODELS), ("URLS", URLS)], &scripts)?;
    }
    let python = directory.join("../venv/bin/python").display().to_string();
    Ok(Project { name: "Django", directory, options: vec!["--python".to_owned(), python] })
}

fn rails(name: &'static str, place: &Path, warmup: &str) -> Result<Project, String> {
    let directory = place.join("blog");
    if !directory.exists() {
        make(&directory)?;
        let scripts = [
            NEW_RAILS,
            "printf '%s' \"$GEMFILE\" >Gemfile",
            "bin/rails generate scaffold post title:string",
            "bin/rails db:migrate",
        ];
        shell(&directory, &[("GEMFILE", GEMFILE), ("RAILS_ENV", "production")], &scripts)?;
    }
    let text = format!("require_relative \"config/environment\"\n{warmup}run Rails.application\n");
    write(&directory.join("config.ru"), text)?;
    let options = vec!["--environment".to_owned(), "production".to_owned()];
    Ok(Project { name, directory, options })
}

/// Starts a server, and waits until it has so many processes.
fn start(binary: &Binary, project: &Project, method: &str, size: usize) -> Result<Server, String> {
    let number = size.to_string();
    let runtime = server::runtime()?;
    let own = ["--spawn-method", method, "--min-instances", &number, "--max-pool-size", &number];
    let mut command = binary.start_command(runtime.path(), &project.directory, own);
    command.args(&project.options).env(SECRET.0, SECRET.1);
    let server = Server::start_with(binary, command, runtime)?;
    match until(PATIENCE, || server.pids().is_ok_and(|pids| pids.len() == size)) {
        true => Ok(server),
        false => Err(format!("the server has not {size} processes:\n{}", server.log())),
    }
}

/// Returns the PSS of the application's processes and of its preloader, in MB.
fn memory(server: &Server) -> Result<f64, String> {
    let log = server.log();
    let preloaders = log.split("preloader ").skip(1);
    let preloaders = preloaders.filter_map(|rest| rest.split_once(" has loaded")?.0.parse().ok());
    let all = server.pids()?.into_iter().chain(preloaders);
    Ok(all.map(proportional_memory).sum::<u64>() as f64 / f64::from(1 << 20))
}

/// Returns the memory after 20 requests a process.
fn memory_in_use(server: &Server, size: usize) -> Result<f64, String> {
    std::thread::scope(|scope| {
        let ask = || (0..20).try_for_each(|_| server.get(PATH).map(drop));
        let clients: Vec<_> = (0..size).map(|_| scope.spawn(ask)).collect();
        let asked = clients.into_iter().map(|client| client.join().expect("no client panics"));
        asked.collect::<Result<(), String>>()
    })?;
    memory(server)
}

/// Returns the time from the end of the only process to the answer of another one, in ms.
fn time_of_another(server: &Server) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..TRIES {
        server.get(PATH)?;
        signal(*server.pids()?.first().ok_or("no process")?, Signal::KILL);
        let begun = Instant::now();
        server.get(PATH)?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TRIES / 2])
}

/// Returns the rows of a project: the figures of both methods, and their ratios.
fn measure(binary: &Binary, project: &Project) -> Result<String, String> {
    let mut figures = Vec::new();
    let mut rows = String::new();
    for method in ["direct", "smart"] {
        let mut all = Vec::new();
        for size in SIZES {
            all.push(memory_in_use(&start(binary, project, method, size)?, size)?);
        }
        let cells: String = all.iter().map(|number| format!("{number:.0} MB | ")).collect();
        let took = time_of_another(&start(binary, project, method, 1)?)?;
        rows += &format!("| {} | {method} | {cells}{took:.0} ms |\n", project.name);
        all.push(took);
        figures.push(all);
    }
    let ratios = figures[1].iter().zip(&figures[0]);
    let cells: Vec<_> = ratios.map(|(smart, direct)| format!("{:.2}", smart / direct)).collect();
    rows += &format!("| {} | smart / direct | {} |\n", project.name, cells.join(" | "));
    Ok(rows)
}
