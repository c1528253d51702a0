//! Other servers of the same application, as their manuals start them in production.

use crate::server::{Kind, PROCESSES};
use std::io;
use std::net::TcpListener;
use std::path::Path;

pub(crate) fn by_name(name: &str) -> Result<Kind, String> {
    match name {
        "gunicorn" => Ok(Kind::Gunicorn),
        "uwsgi" => Ok(Kind::Uwsgi),
        "puma" => Ok(Kind::Puma),
        "passenger" => Ok(Kind::Passenger),
        _ => Err(format!("--against takes gunicorn, uwsgi, puma or passenger, not {name}")),
    }
}

pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the command that serves the application with three processes.
pub(crate) fn command(
    kind: Kind,
    app: &Path,
    runtime: &Path,
    port: u16,
) -> Result<Vec<String>, String> {
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
    Ok(line.split_whitespace().map(str::to_owned).collect())
}
