//! Other servers of the same application, as their manuals start them in production.

use crate::kind::Kind;
use crate::setup::PROCESSES;
use std::path::Path;
use std::process::Command;

/// Returns the command that serves the application with three processes.
pub(crate) fn command(
    kind: Kind,
    app: &Path,
    runtime: &Path,
    port: u16,
) -> Result<Command, String> {
    let here = std::env::current_dir().map_err(|e| e.to_string())?;
    // `cargo xtask checks-faults` installs them there.
    let installed = |name: &str| here.join("target/peers/bin").join(name).display().to_string();
    let (app, runtime) = (app.display(), runtime.display());
    let line = match kind {
        Kind::Cabrank => return Err("cabrank is no peer".to_owned()),
        Kind::Gunicorn => format!(
            "{} --workers {PROCESSES} --bind 127.0.0.1:{port} passenger_wsgi:application",
            installed("gunicorn")
        ),
        Kind::Uwsgi => format!(
            "{} --master --die-on-term --need-app --processes {PROCESSES} --http 127.0.0.1:{port} \
             --http-keepalive --wsgi-file passenger_wsgi.py",
            installed("uwsgi")
        ),
        Kind::Puma => format!(
            "puma --environment production --workers {PROCESSES} --threads 1:1 --bind tcp://127.0.0.1:{port} {app}/config.ru"
        ),
        Kind::Passenger => format!(
            "passenger start --engine builtin --disable-turbocaching {app} --app-type wsgi --startup-file passenger_wsgi.py --environment production \
             --address 127.0.0.1 --port {port} --min-instances {PROCESSES} --max-pool-size {PROCESSES} \
             --log-file {runtime}/log --pid-file {runtime}/pid"
        ),
    };
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    Ok(command)
}
