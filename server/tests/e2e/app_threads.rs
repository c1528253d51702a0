//! `--app-threads`: one process serves several requests at once.

use crate::server::{Server, app, eventually};
use crate::wrong_input::fails;
use std::time::Duration;

const THREADS: usize = 4;

/// Answers `together` when four requests are inside at once; other paths answer whether the process has threads.
const RACK: &str = "\
    lock, full, inside = Mutex.new, ConditionVariable.new, 0\n\
    run lambda { |env|\n\
      next [200, {}, [\"#{env['rack.multithread']} #{Thread.list.count { |t| t.name.to_s.start_with?('request') }}\"]] \
        unless env['PATH_INFO'] == '/meet'\n\
      lock.synchronize do\n\
        inside += 1\n\
        full.broadcast if (inside % 4).zero?\n\
        mine = (inside + 3) / 4 * 4\n\
        full.wait(lock) until inside >= mine\n\
      end\n\
      [200, {}, [\"together in #{Process.pid}\"]]\n\
    }\n";

const WSGI: &str = "\
import os, threading\n\
barrier = threading.Barrier(4)\n\
def application(environ, start_response):\n\
\x20   start_response('200 OK', [])\n\
\x20   if environ['PATH_INFO'] == '/meet':\n\
\x20       barrier.wait()\n\
\x20       return [f'together in {os.getpid()}'.encode()]\n\
\x20   names = sum(t.name.startswith(('request thread', 'MainThread')) for t in threading.enumerate())\n\
\x20   return [f\"{str(environ['wsgi.multithread']).lower()} {names}\".encode()]\n";

#[test]
fn one_process_serves_as_many_requests_at_once_as_it_has_threads() {
    for (file, source) in [("config.ru", RACK), ("passenger_wsgi.py", WSGI)] {
        for method in ["direct", "smart"] {
            let dir = app(file, source);
            let count = THREADS.to_string();
            let options =
                ["--app-threads", &count, "--max-pool-size", "1", "--spawn-method", method];
            let server = Server::start(dir.path(), &options);
            // The first request may be served before the last thread has begun.
            let expected = format!("true {THREADS}");
            eventually("all threads", || (server.get("/") == expected).then_some(()));
            // Twice: the threads serve further requests of the same connections. And once more, when each has waited for longer
            // than it sleeps between two looks.
            for round in 0..3 {
                if round == 2 {
                    std::thread::sleep(Duration::from_millis(2500));
                }
                // Each waits for the others, so that with fewer threads the first would wait forever.
                let answers: Vec<String> = std::thread::scope(|scope| {
                    let get = || server.get("/meet");
                    let asking: Vec<_> = (0..THREADS).map(|_| scope.spawn(get)).collect();
                    asking.into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                let expected = format!("together in {}", server.pids()[0]);
                assert!(answers.iter().all(|answer| *answer == expected), "{answers:?}");
            }
        }
        let dir = app(file, source);
        let server = Server::start(dir.path(), &[]);
        assert!(server.get("/").starts_with("false "), "{file}");
    }
}

#[test]
fn threads_are_refused_where_an_application_has_none() {
    let node = app("app.js", "");
    let parts = ["--app-threads 5", "the type node", "only Rack and WSGI"];
    fails(node.path(), &["--app-threads", "5"], 2, &parts);
    std::fs::write(node.path().join("cabrank.toml"), "app_threads = 5\n").unwrap();
    fails(node.path(), &[], 2, &["app_threads = 5 in ", "cabrank.toml", "Remove it"]);
    let wsgi = app("passenger_wsgi.py", "");
    fails(wsgi.path(), &["--app-threads", "0"], 2, &["--app-threads", "from 1 to 1024"]);
    let asgi = app("app.py", "async def app(scope, receive, send): pass\n");
    fails(
        asgi.path(),
        &["--app-threads", "5"],
        5,
        &["an ASGI application", "Remove --app-threads"],
    );
}
