//! Smart spawning: a preloader loads the application once, and forks its processes.

use crate::server::{Server, Signal, app, eventually, is_alive, run, signal};
use std::fs;
use tempfile::TempDir;

const SMART: [&str; 6] =
    ["--spawn-method", "smart", "--max-pool-size", "3", "--min-instances", "3"];

/// The same applications in each language.
struct Language {
    startup_file: &'static str,
    /// Answers with the pid that has loaded it, and the pid that answers. `/crash` ends the process, and `/log` writes
    /// `logged by` and the pid to standard error.
    loaded_by: &'static str,
    /// Answers `new`.
    new: &'static str,
    /// Answers `direct`, and cannot be preloaded.
    direct: &'static str,
}

const RACK: Language = Language {
    startup_file: "config.ru",
    loaded_by: "loaded = Process.pid\n\
        run ->(env) {\n\
          exit!(1) if env['PATH_INFO'] == '/crash'\n\
          STDERR.puts \"logged by #{Process.pid}\" if env['PATH_INFO'] == '/log'\n\
          [200, {}, [\"#{loaded} #{Process.pid}\"]]\n\
        }\n",
    new: "run ->(_) { [200, {}, ['new']] }\n",
    direct: "raise 'not in a preloader' if $PROGRAM_NAME.include?('preloader')\n\
        run ->(_) { [200, {}, ['direct']] }\n",
};

const WSGI: Language = Language {
    startup_file: "passenger_wsgi.py",
    loaded_by: "import os, sys\n\
        loaded = os.getpid()\n\
        def application(environ, start_response):\n\
        \x20   if environ['PATH_INFO'] == '/crash': os._exit(1)\n\
        \x20   if environ['PATH_INFO'] == '/log': print('logged by', os.getpid(), file=sys.stderr)\n\
        \x20   start_response('200 OK', [])\n\
        \x20   return [f'{loaded} {os.getpid()}'.encode()]\n",
    new: "def application(environ, start_response):\n\
        \x20   start_response('200 OK', [])\n\
        \x20   return [b'new']\n",
    direct: "import sys\n\
        if 'preloader' in sys.argv[0]: raise OSError('not in a preloader')\n\
        def application(environ, start_response):\n\
        \x20   start_response('200 OK', [])\n\
        \x20   return [b'direct']\n",
};

const ASGI: Language = Language {
    startup_file: "asgi.py",
    loaded_by: "import os, sys\n\
        loaded = os.getpid()\n\
        async def app(scope, receive, send):\n\
        \x20   assert scope['type'] == 'http'\n\
        \x20   if scope['path'] == '/crash': os._exit(1)\n\
        \x20   if scope['path'] == '/log': print('logged by', os.getpid(), file=sys.stderr)\n\
        \x20   await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n\
        \x20   await send({'type': 'http.response.body', 'body': f'{loaded} {os.getpid()}'.encode()})\n",
    new: "",
    direct: "",
};

impl Language {
    fn app(&self, text: &str) -> TempDir {
        app(self.startup_file, text)
    }

    fn loaded_by(&self) -> TempDir {
        self.app(self.loaded_by)
    }
}

/// Defines each test for each language of its list.
macro_rules! tests {
    ($($module:ident $language:ident: $($test:ident)*;)*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                super::$test(&super::$language);
            })*
        })*
    };
}

tests! {
    rack RACK:
        processes_are_forked_from_one_preloader_and_reaped_by_the_server
        a_preloader_that_is_killed_is_replaced_without_a_failed_request
        a_preloader_that_hangs_is_killed_and_replaced
        a_restart_loads_the_new_code
        a_version_that_does_not_boot_is_not_preloaded_again_and_again
        an_unused_preloader_leaves_and_another_one_comes
        an_application_that_cannot_be_preloaded_starts_directly
        forked_processes_end_with_a_killed_server
        the_log_names_the_process_that_writes_to_standard_error;
    wsgi WSGI:
        processes_are_forked_from_one_preloader_and_reaped_by_the_server
        a_preloader_that_is_killed_is_replaced_without_a_failed_request
        a_preloader_that_hangs_is_killed_and_replaced
        a_restart_loads_the_new_code
        a_version_that_does_not_boot_is_not_preloaded_again_and_again
        an_unused_preloader_leaves_and_another_one_comes
        an_application_that_cannot_be_preloaded_starts_directly
        forked_processes_end_with_a_killed_server
        the_log_names_the_process_that_writes_to_standard_error;
    asgi ASGI:
        processes_are_forked_from_one_preloader_and_reaped_by_the_server
        a_preloader_that_is_killed_is_replaced_without_a_failed_request
        forked_processes_end_with_a_killed_server
        the_log_names_the_process_that_writes_to_standard_error;
}

fn pids(server: &Server) -> (u32, u32) {
    let text = server.get("/");
    let (loaded, own) = text.split_once(' ').unwrap();
    (loaded.parse().unwrap(), own.parse().unwrap())
}

fn processes_are_forked_from_one_preloader_and_reaped_by_the_server(language: &Language) {
    let dir = language.loaded_by();
    let mut server = Server::start(dir.path(), &SMART);
    let (preloader, first) = pids(&server);
    assert_ne!(preloader, first);
    let all = eventually("three processes", || Some(server.pids()).filter(|all| all.len() == 3));
    assert!(!all.contains(&preloader));
    let children = server.children();
    assert!(all.iter().all(|pid| children.contains(pid)), "{all:?} {children:?}");
    assert_eq!(server.client().request("POST", "/crash", &[], b"").unwrap().status, 502);
    eventually("the place is taken", || {
        let now = server.pids();
        (now.len() == 3 && now != all).then_some(())
    });
    assert_eq!(pids(&server).0, preloader);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!is_alive(preloader));
}

fn a_preloader_that_is_killed_is_replaced_without_a_failed_request(language: &Language) {
    let dir = language.loaded_by();
    let server = Server::start(dir.path(), &SMART);
    let (first, _) = pids(&server);
    eventually("three processes", || (server.pids().len() == 3).then_some(()));
    signal(first, Signal::KILL);
    for _ in 0..20 {
        server.get("/");
    }
    server.logs(&format!("preloader {first} ended unexpectedly"));
    for pid in server.pids() {
        signal(pid, Signal::KILL);
    }
    eventually("processes of another preloader", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 200 && !reply.text().starts_with(&first.to_string())).then_some(())
    });
}

/// The system cuts a name at 15 bytes, also within a character.
#[test]
fn the_name_of_a_process_need_not_be_utf_8() {
    let app = "import os, time\nopen('/proc/self/comm', 'wb').write(b'caf\\xc3')\nloaded = os.getpid()\n\
               def application(environ, start_response):\n    start_response('200 OK', [])\n    \
               return [f'{loaded} {os.getpid()}'.encode()]\n";
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("passenger_wsgi.py"), app).unwrap();
    let server = Server::start(dir.path(), &["--spawn-method", "smart"]);
    let (preloader, process) = pids(&server);
    assert_ne!(preloader, process);
}

fn a_preloader_that_hangs_is_killed_and_replaced(language: &Language) {
    let dir = language.loaded_by();
    let server = Server::start(dir.path(), &["--spawn-method", "smart", "--max-pool-size", "1"]);
    let (first, process) = pids(&server);
    signal(first, Signal::STOP);
    signal(process, Signal::KILL);
    eventually("a process of another preloader", || {
        let reply = server.client().get("/").ok()?;
        (reply.status == 200 && !reply.text().starts_with(&first.to_string())).then_some(())
    });
    server.logs("did not answer within");
    eventually("the end of the preloader", || (!is_alive(first)).then_some(()));
}

fn a_restart_loads_the_new_code(language: &Language) {
    let dir = language.loaded_by();
    let server = Server::start(dir.path(), &SMART);
    let (first, _) = pids(&server);
    fs::write(dir.path().join(language.startup_file), language.new).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("the new code", || (server.get("/") == "new").then_some(()));
    eventually("the end of the preloader", || (!is_alive(first)).then_some(()));
}

/// The pool starts a process again and again. Only the first time, a preloader is tried before.
fn a_version_that_does_not_boot_is_not_preloaded_again_and_again(language: &Language) {
    let dir = language.loaded_by();
    let file = dir.path().join(language.startup_file);
    let code = fs::read_to_string(&file).unwrap();
    let server = Server::start(dir.path(), &[&SMART[..], &["-e", "production"]].concat());
    let (old, _) = pids(&server);
    fs::write(&file, "this is no program (").unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    let failures = || server.log().matches("next attempt in").count();
    eventually("three failures", || (failures() >= 3).then_some(()));
    assert_eq!(server.log().matches("cannot be preloaded").count(), 1, "{}", server.log());
    assert_eq!(pids(&server).0, old);
    fs::write(&file, code).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("forked processes of the new code", || {
        let all = server.pids();
        let (loaded, own) = pids(&server);
        (loaded != old && loaded != own && !all.contains(&loaded)).then_some(())
    });
}

fn an_unused_preloader_leaves_and_another_one_comes(language: &Language) {
    let dir = language.loaded_by();
    let options = ["--spawn-method", "smart", "--max-preloader-idle-time", "0.2"];
    let server = Server::start(dir.path(), &options);
    let (first, process) = pids(&server);
    eventually("the end of the preloader", || (!is_alive(first)).then_some(()));
    assert_eq!(pids(&server), (first, process));
    signal(process, Signal::KILL);
    eventually("a process of another preloader", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 200 && !reply.text().starts_with(&first.to_string())).then_some(())
    });
}

fn an_application_that_cannot_be_preloaded_starts_directly(language: &Language) {
    let dir = language.app(language.direct);
    let server = Server::start(dir.path(), &["--spawn-method", "smart"]);
    assert_eq!(server.get("/"), "direct");
    server.logs("cannot be preloaded");
    server.logs("not in a preloader");
}

fn forked_processes_end_with_a_killed_server(language: &Language) {
    let dir = language.loaded_by();
    let mut server = Server::start(dir.path(), &SMART);
    eventually("three processes", || (server.pids().len() == 3).then_some(()));
    let all = server.children();
    server.signal(Signal::KILL);
    server.ended();
    eventually("the end of all", || all.iter().all(|&pid| !is_alive(pid)).then_some(()));
}

fn the_log_names_the_process_that_writes_to_standard_error(language: &Language) {
    let dir = language.loaded_by();
    let server = Server::start(dir.path(), &SMART);
    let text = server.get("/log");
    let pid = text.rsplit(' ').next().unwrap();
    server.logs(&format!("App {pid} stderr: logged by {pid}"));
}
