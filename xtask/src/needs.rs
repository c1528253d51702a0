//! The programs that the tests and checks need besides Rust's: where Debian has them, and whether they are there.
//!
//! `.ci/run` and `cargo xtask test` install them from this list. `tests/needs.txt` says which tests need which.

use crate::common::{Outcome, say, shell};
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Debian's packages of it.
    packages: &'static str,
    /// Succeeds if the program is there and new enough.
    probe: &'static str,
}

pub(crate) const PROGRAMS: [Program; 12] = [
    Program {
        name: "python3",
        about: "Python 3.10 or newer",
        packages: "python3",
        probe: "python3 -c 'import asyncio, ctypes, sys; sys.exit(sys.version_info < (3, 10))'",
    },
    Program {
        name: "node",
        about: "Node 18 or newer",
        packages: "nodejs",
        probe: "node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)'",
    },
    Program {
        name: "ruby",
        about: "Ruby 3.1 or newer, with Rack",
        packages: "ruby ruby-rack",
        probe: "ruby -e 'require \"rack\"; exit Gem::Version.new(RUBY_VERSION) >= Gem::Version.new(\"3.1\")'",
    },
    Program {
        name: "perl",
        about: "Perl with its standard modules",
        packages: "perl",
        probe: "perl -MIO::Select -MIO::Socket::UNIX -MPOSIX -e 1",
    },
    Program { name: "kill", about: "kill", packages: "procps", probe: "type -P kill" },
    Program { name: "strace", about: "strace", packages: "strace", probe: "type -P strace" },
    Program {
        name: "faye",
        about: "the WebSockets of Faye for Ruby",
        packages: "ruby-faye-websocket",
        probe: "ruby -e 'require \"faye/websocket\"'",
    },
    Program {
        name: "nginx",
        about: "nginx, and openssl for its certificate",
        packages: "nginx-light openssl",
        probe: "type -P nginx openssl && test -e /etc/nginx/scgi_params",
    },
    Program {
        name: "apache2",
        about: "Apache, whose modules the tests load themselves",
        packages: "apache2",
        probe: "type -P apache2 && test -e /usr/lib/apache2/modules/mod_proxy_scgi.so",
    },
    Program {
        name: "postgres",
        about: "PostgreSQL",
        packages: "postgresql",
        // The tests look here, too: Debian has the server of each version in a folder of its own.
        probe: "ls /usr/lib/postgresql/*/bin/postgres",
    },
    Program {
        name: "redis-server",
        about: "Redis",
        packages: "redis-server",
        probe: "test -x /usr/bin/redis-server",
    },
    Program {
        name: "faketime",
        about: "faketime, for a row of `cargo xtask checks-faults`",
        packages: "faketime",
        probe: "ls /usr/lib/*/faketime/libfaketimeMT.so.1",
    },
];

/// `cargo xtask needs`: lists the programs that are missing. With `--install`, it installs them.
pub(crate) fn run(args: &[String]) -> Outcome {
    let installs = match args {
        [] => false,
        [option] if option == "--install" => true,
        _ => return Err("cargo xtask needs [--install]".to_owned()),
    };
    let mut missing = missing();
    if installs && !missing.is_empty() {
        install(&missing)?;
        missing = self::missing();
    }
    if missing.is_empty() {
        say("all programs that the tests need are there");
        return Ok(());
    }
    Err(message(&missing))
}

/// Lists the programs that are not there, or too old.
pub(crate) fn missing() -> Vec<&'static Program> {
    let is_there = |program: &&Program| {
        let mut probe = Command::new("bash");
        probe.args(["-c", program.probe]);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    PROGRAMS.iter().filter(|program| !is_there(program)).collect()
}

/// Installs the packages of these programs.
pub(crate) fn install(missing: &[&Program]) -> Outcome {
    let line = install_line(missing);
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("there is no apt-get; on Debian, this would install them: {line}"));
    }
    say(&line);
    let update = line.split(" install ").next().unwrap_or_default();
    // Also through `sudo`, a package must ask nothing.
    let quiet = line.replace("apt-get", "env DEBIAN_FRONTEND=noninteractive apt-get");
    shell(&format!("{update} update -qq\n{quiet} -y -qq"), &[])
}

/// Says what is missing, and the one line that installs it on Debian.
pub(crate) fn message(missing: &[&Program]) -> String {
    let names: Vec<&str> = missing.iter().map(|program| program.about).collect();
    format!(
        "missing: {}. This installs it on Debian:\n\n    {}\n",
        names.join("; "),
        install_line(missing)
    )
}

fn install_line(missing: &[&Program]) -> String {
    let packages: Vec<&str> = missing.iter().map(|program| program.packages).collect();
    let line = format!("apt-get install {}", packages.join(" "));
    if rustix::process::geteuid().is_root() { line } else { format!("sudo {line}") }
}
