//! The texts for the operator when the server starts, or fails to start.

use crate::configuration::application::Application;
use crate::configuration::options::TABLE;
use crate::configuration::peers;
use crate::failure::{Failure, Kind};
use crate::observe::plain;
use cabrank::application_pool::GetError;
use cabrank_spawner::BootError;
use cabrank_spawner::chain::Chain;
use std::io::{self, IsTerminal, Write};

/// Logs which settings the server does not read, although they may be meant for it.
pub(crate) fn warn_of_unread(application: &Application) {
    let file = application.app.root.join("Passengerfile.json");
    if file.is_file() {
        tracing::warn!(
            "{} is not read: write its options into cabrank.toml. For those with another name, errors name each remedy.",
            file.display()
        );
    }
    let is_known = |name: &str| {
        name == "CABRANK_REGISTRY_DIR" || TABLE.iter().any(|row| row.variable() == name)
    };
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        if let Some(remedy) = of_passenger(name) {
            tracing::warn!("the variable {name} is not read: {remedy}.");
        }
        if name.starts_with("CABRANK_") && !is_known(name) {
            tracing::warn!(
                "the variable {name} names no option of `cabrank start`, and has no effect on it."
            );
        }
    }
}

/// Returns what does the work of a variable by which Passenger takes an option.
fn of_passenger(name: &str) -> Option<String> {
    let option = name.strip_prefix("PASSENGER_")?.to_lowercase();
    // These are for the application, or name its environment.
    if ["base_uri", "app_env"].contains(&&*option) {
        return None;
    }
    match TABLE.iter().find(|row| row.name == option) {
        Some(row) => Some(format!("use {}", row.variable())),
        None => peers::answer(&format!("--{}", option.replace('_', "-")), &[]),
    }
}

/// Logs that the server serves the application, and prints a summary to a terminal.
pub(crate) fn announce(application: &Application, places: &str) {
    let Application { app, environment, user, .. } = application;
    let kind = &app.description;
    tracing::info!("serving {} ({kind}, {}) at {places}", app.root.display(), environment);
    if app.is_named_by_script {
        let line = app.start_line();
        tracing::info!(
            "the script `start` of package.json starts the application: {line}. NODE_ENV is {environment}, unless the \
             script sets it."
        );
    }
    if let Some(remark) = &app.remark {
        tracing::warn!("{remark}");
    }
    if let Some(set) = app.variable("NODE_ENV").filter(|set| set != environment) {
        tracing::warn!(
            "NODE_ENV of the application is {set}, as its script `start` sets it, and the environment of the server is \
             {environment}. Let both say the same."
        );
    }
    if rustix::process::geteuid().is_root() && user.is_none() {
        tracing::warn!(
            "running as root: the application may do everything on this machine. Name another user for \
             it with --user, or start cabrank as another user."
        );
    }
    if io::stdout().is_terminal() {
        let summary = plain::text(&format!(
            "\n  cabrank {}\n\n  Application  {} ({kind}: {})\n  Environment  {}\n  Listens at   \
             {places}\n  PID          {}\n\n  Press Ctrl-C to stop.\n\n",
            env!("CARGO_PKG_VERSION"),
            app.root.display(),
            app.start_line(),
            environment,
            std::process::id()
        ))
        .into_owned();
        // A terminal that is stopped (Ctrl-S) or gone must not keep the server from serving.
        tokio::task::spawn_blocking(move || io::stdout().write_all(summary.as_bytes()));
    }
}

/// Returns the failure of the first boot.
pub(crate) fn boot_failure(error: &GetError) -> Failure {
    let boot = match error {
        GetError::Spawn(error) => error.cause().downcast_ref::<BootError>(),
        _ => None,
    };
    let message = boot.map_or_else(|| Chain(error).to_string(), boot_message);
    Failure::new(Kind::Boot, message)
}

/// Returns all that is known about a failed boot, for the terminal.
fn boot_message(boot: &BootError) -> String {
    let mut message = boot.summary.clone();
    let output = boot.details();
    if !output.is_empty() {
        message.push_str(&format!(" Its output:\n\n  {}\n", output.replace('\n', "\n  ")));
    }
    let facts = boot.facts();
    if output.is_empty() && !facts.is_empty() {
        message.push('\n');
    }
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, text) in facts {
        message.push_str(&format!("\n  {name:width$}  {text}"));
    }
    message
}
