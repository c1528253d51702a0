//! The script `start` of a `package.json` starts as it is written, or the log says why not.

use crate::server::{Server, app, eventually, run, start_command};
use crate::users::{is_root, open_to_all, runtime};
use crate::wrong_input::fails;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Answers with its file, and with all that a script can set.
const SHOWS: &str = "require('http').createServer((q, s) => s.end(JSON.stringify([\n\
    require('path').relative(process.cwd(), __filename), process.execArgv.filter((word) => word !== '--'),\n\
    process.argv.slice(2), process.env.GREETING, process.env.NODE_ENV, global.preloaded, require.main === module,\n\
  ]))).listen(process.env.PORT || 3000);\n";

/// Returns an application in which each startup file shows how it was started.
fn package(start: &str) -> TempDir {
    let dir = app("server.js", SHOWS);
    fs::create_dir(dir.path().join("dist")).unwrap();
    fs::write(dir.path().join("dist/index.js"), SHOWS).unwrap();
    fs::write(dir.path().join(".env"), "GREETING=hello\n").unwrap();
    fs::write(dir.path().join("set.mjs"), "global.preloaded = import.meta.url.slice(-7);\n")
        .unwrap();
    fs::write(dir.path().join("set.js"), "global.preloaded = __filename.slice(-6);\n").unwrap();
    write_script(dir.path(), start);
    dir
}

fn write_script(dir: &Path, start: &str) {
    let package = serde_json::json!({"scripts": {"start": start}});
    fs::write(dir.join("package.json"), package.to_string()).unwrap();
}

fn has_env_files() -> bool {
    let node = Command::new("node").args(["--env-file=/dev/null", "-e", "0"]).output();
    node.is_ok_and(|out| out.status.success())
}

#[test]
fn a_script_starts_as_it_is_written() {
    for (start, shown) in [
        ("node dist/index.js", r#"["dist/index.js",[],[],null,"development",null,true]"#),
        (
            "node --env-file=.env dist/index.js",
            r#"["dist/index.js",["--env-file=.env"],[],"hello","development",null,true]"#,
        ),
        (
            "NODE_ENV=production GREETING='a b' node dist/index.js",
            r#"["dist/index.js",[],[],"a b","production",null,true]"#,
        ),
        (
            "node --max-old-space-size=512 dist -x --y=z",
            r#"["dist/index.js",["--max-old-space-size=512"],["-x","--y=z"],null,"development",null,true]"#,
        ),
        (
            "node -r ./set.js dist/index",
            r#"["dist/index.js",["-r","./set.js"],[],null,"development","set.js",true]"#,
        ),
        (
            "nodejs --import ./set.mjs -- dist/index.js",
            r#"["dist/index.js",["--import","./set.mjs"],[],null,"development","set.mjs",true]"#,
        ),
    ] {
        if start.contains("--env-file") && !has_env_files() {
            println!("left out: Node before 20.6 does not know {start}");
            continue;
        }
        let dir = package(start);
        let server = Server::start(dir.path(), &[]);
        assert_eq!(server.get("/"), shown, "{start}");
        server.logs("INFO the script `start` of package.json starts the application: ");
        let log = server.log();
        let warns = |line: &str| line.contains("WARN") && line.contains("script");
        assert!(!log.lines().any(warns), "{log}");
    }
}

#[test]
fn a_script_that_is_not_understood_is_named_with_the_remedies() {
    for (start, part) in [
        ("npx ts-node src/index.ts", "and not `npx`"),
        ("cross-env NODE_ENV=production node dist/index.js", "and not `cross-env`"),
        ("node build.js && node dist/index.js", "and not `&&`"),
        ("node dist/index.js --port $PORT", "and not `$`"),
        ("node --watch dist/index.js", "and not `--watch`"),
        ("node dist/gone.js", "names dist/gone.js, which does not exist"),
    ] {
        let dir = package(start);
        let server = Server::start(dir.path(), &[]);
        server.logs(part);
        for part in [
            "script `start`",
            "starts by server.js instead",
            "--startup-file",
            "--start-command 'npm start'",
        ] {
            assert!(server.log().contains(part), "{start}: {}", server.log());
        }
        assert!(server.get("/").starts_with(r#"["server.js","#));
        drop(server);
        // The user decides: there is nothing to say.
        let server = Server::start(dir.path(), &["--startup-file", "dist/index.js"]);
        assert!(server.get("/").starts_with(r#"["dist/index.js",[],[],null,"#));
        assert!(!server.log().contains("script `start`"), "{}", server.log());
        drop(server);
        fs::remove_file(dir.path().join("server.js")).unwrap();
        fails(dir.path(), &[], 3, &["script `start`", part, "--start-command 'npm start'"]);
    }
}

#[test]
fn a_restart_reads_the_script_again() {
    let dir = package("GREETING=one node dist/index.js a");
    let server = Server::start(dir.path(), &[]);
    assert!(server.get("/").contains(r#"["a"],"one","#));
    let restart = |start: &str, shown: &str| {
        write_script(dir.path(), start);
        assert!(run(server.runtime.path(), &["restart"]).status.success());
        eventually("the answer of the new script", || {
            let reply = server.client().get("/").unwrap();
            reply.text().contains(shown).then_some(())
        });
    };
    restart("GREETING=two node --no-warnings dist/index.js b", r#"["--no-warnings"],["b"],"two","#);
    server.logs("starts by GREETING=two node --no-warnings dist/index.js b now");
    restart("npx tsx dist/index.ts", r#"["server.js",[],[],null,"#);
    server.logs("and not `npx`. The application starts by server.js instead.");
    restart("node server.js c", r#"["server.js",[],["c"],null,"#);
}

#[test]
fn the_environment_of_a_script_is_that_of_the_server_unless_an_option_names_another() {
    let dir = package("NODE_ENV=production node server.js");
    let server = Server::start(dir.path(), &[]);
    server.logs(", production) at http");
    drop(server);
    let server = Server::start(dir.path(), &["-e", "staging"]);
    server.logs(", staging) at http");
    server.logs("NODE_ENV of the application is production, as its script `start` sets it");
    assert!(server.get("/").contains(r#""production""#));
}

#[test]
fn a_script_starts_with_the_rights_of_the_user() {
    if !is_root() {
        return;
    }
    let dir = package("GREETING=hi HOME=/nowhere node -r ./set.js dist/index.js");
    let ask = "[process.getuid(), process.env.USER, process.env.HOME, process.env.GREETING]";
    let serves =
        format!("require('http').createServer((q, s) => s.end(JSON.stringify({ask}))).listen(0);");
    fs::write(dir.path().join("dist/index.js"), serves).unwrap();
    open_to_all(dir.path());
    let runtime = runtime();
    let options = ["--user", "nobody"];
    let command = start_command(runtime.path(), dir.path(), &options);
    let server = Server::start_with(command, runtime);
    let uid = fs::metadata(format!("/proc/{}", server.pids()[0])).unwrap().uid();
    assert_ne!(uid, 0);
    assert_eq!(server.get("/"), format!(r#"[{uid},"nobody","/nowhere","hi"]"#));
}

/// The server executes itself with its own rights before it executes Node with those of the user.
#[test]
fn no_variable_of_a_script_reaches_the_server_itself() {
    let dir = package("LD_PRELOAD=/nowhere/of-a-script.so node server.js");
    let server = Server::start(dir.path(), &[]);
    server.get("/");
    server.logs("of-a-script.so");
    let complaints = server.log().matches("'/nowhere/of-a-script.so' from LD_PRELOAD").count();
    assert_eq!(complaints, 1, "{}", server.log());
}

#[test]
fn the_error_of_a_script_that_does_not_boot_shows_its_options_and_variables() {
    let dir = package("MY_SETTING=1 node --no-warnings dist/index.js");
    fs::write(dir.path().join("dist/index.js"), "throw new Error('broken');").unwrap();
    let parts =
        ["--no-warnings", "MY_SETTING", "for MY_SETTING=1 node --no-warnings dist/index.js"];
    fails(dir.path(), &[], 5, &parts);
    let dir = package("node --no-such-option dist/index.js");
    fails(dir.path(), &[], 5, &["bad option: --no-such-option"]);
}
