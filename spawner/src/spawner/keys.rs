//! The keys that the handshake sends to a loader. `docs/custom-types.md` explains each.

use crate::app_type::Launch;
use crate::instance_dir::Instance;
use crate::options::{Options, SpawnMethod};
use crate::random;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The keys that a process of its own has, and a preloader has not.
pub(super) const OF_ONE_PROCESS: [&str; 2] = ["gupid", "connect_password"];

/// Returns the keys in the order of the protocol.
pub(super) fn keys(
    options: &Options,
    instance: &Instance,
    password: &str,
) -> Vec<(&'static str, String)> {
    let app = &options.app;
    let loader = match &app.launch {
        Launch::Loader { loader, .. } => instance.path().join(loader.entry()),
        Launch::Custom(custom) => custom.loader.clone(),
        Launch::Command(_) => PathBuf::new(),
    };
    let interpreter = interpreter(options).map(|i| format!("{}\t", i.display()));
    let minutes = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 60);
    let method = if options.preloads() { SpawnMethod::Smart } else { SpawnMethod::Direct };
    let mut keys = vec![
        ("passenger_root", instance.path().display().to_string()),
        ("passenger_version", env!("CARGO_PKG_VERSION").into()),
        ("generation_dir", instance.generation().display().to_string()),
        ("gupid", format!("{minutes:x}-{}", random::characters(11))),
        ("connect_password", password.into()),
        ("app_root", app.root.display().to_string()),
        ("app_group_name", options.group_name.clone()),
        ("app_type", app.type_name.clone()),
        ("start_command", format!("{}{}", interpreter.unwrap_or_default(), loader.display())),
        ("startup_file", app.start().into()),
        ("process_title", format!("{}: {}", app.title, app.root.display())),
        ("log_level", options.log_level.clone()),
        ("start_timeout", options.start_timeout.as_millis().to_string()),
        ("environment", options.environment.clone()),
        ("base_uri", options.base_uri.clone()),
        ("spawn_method", if method == SpawnMethod::Smart { "smart" } else { "direct" }.into()),
        ("restart_dir", options.restart_dir.display().to_string()),
    ];
    keys.retain(|(name, value)| *name != "base_uri" || !value.is_empty());
    let threads = options.app_threads.get();
    keys.extend((threads > 1).then(|| ("app_threads", threads.to_string())));
    keys.extend(options.early_hints.then(|| ("early_hints", "true".into())));
    // A busy Node process runs no signal handler: its loader watches the time itself.
    keys.extend(options.max_request_time.map(|t| ("max_request_time", t.as_millis().to_string())));
    keys.push(("max_websocket_message", options.max_websocket_message.to_string()));
    keys
}

/// Returns the program that runs the loader, unless the loader is executable.
pub(super) fn interpreter(options: &Options) -> Option<&Path> {
    match &options.app.launch {
        Launch::Loader { .. } => Some(&options.interpreter),
        Launch::Custom(custom) => custom.interpreter.as_deref(),
        Launch::Command(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app_type;
    use crate::instance_dir::InstanceDir;
    use std::num::NonZeroUsize;
    use std::time::Duration;

    #[test]
    fn the_page_on_types_explains_each_key_in_its_order() {
        let page = include_str!("../../../docs/custom-types.md");
        let (_, table) = page.split_once("| key of the handshake |").unwrap();
        let rows = table.lines().take_while(|line| !line.is_empty());
        let explained: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("app.js"), "").unwrap();
        let app = app_type::find(root.path(), None, None).unwrap();
        let options = Options {
            app_threads: NonZeroUsize::new(2).unwrap(),
            early_hints: true,
            base_uri: "/blog".into(),
            max_request_time: Some(Duration::from_secs(1)),
            ..Options::new(app)
        };
        let dir = InstanceDir::create("cabrank-keys", None).unwrap();
        let sent: Vec<_> = keys(&options, &dir.shared(), "").into_iter().map(|k| k.0).collect();
        assert_eq!(explained, sent);
    }
}
