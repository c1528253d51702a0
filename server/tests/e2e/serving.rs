//! Serving applications: the examples, parallel requests, limits, and the tools.

use crate::server::{HALF_CLOSE, Server, eventually, example, run, wsgi};
use cabrank_checks_harness::Client;

#[test]
fn the_examples_answer() {
    for (name, word) in [("wsgi", "WSGI"), ("asgi", "ASGI"), ("node", "Node")] {
        let server = Server::start(&example(name), &[]);
        assert!(server.get("/").contains(word));
        let body = b"echo, echo".repeat(1000);
        let reply = server.client().request("POST", "/upload", &[], &body).unwrap();
        assert_eq!((reply.status, reply.body), (200, body));
        assert!(server.get("/stream").lines().count() >= 10);
    }
}

#[test]
fn parallel_requests_use_different_processes_and_status_shows_them() {
    let app = wsgi("", "time.sleep(4)\nreturn answer(os.getpid())");
    let server = Server::start(app.path(), &[]);
    let address = server.address;
    let ask =
        || std::thread::spawn(move || Client::connect(address).unwrap().get("/").unwrap().text());
    let (one, two) = (ask(), ask());
    eventually("two busy processes", || {
        let status = server.status();
        let processes = status["groups"][0]["processes"].as_array()?.clone();
        (processes.len() == 2 && status["active"] == 2).then_some(())
    });
    assert_ne!(one.join().unwrap(), two.join().unwrap());

    let text = run(server.runtime.path(), &["status"]);
    let text = String::from_utf8(text.stdout).unwrap();
    for pid in server.pids() {
        assert!(text.contains(&pid.to_string()), "{text}");
    }
    for word in ["Max pool size", "PID", "Sessions", "Processed", "Memory", "(development)"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains('\x1b'), "the output in a pipe has colours");
}

#[test]
fn idle_processes_shut_down_until_the_minimum() {
    let app = wsgi("", "time.sleep(0.2)\nreturn answer(os.getpid())");
    let server = Server::start(app.path(), &["--pool-idle-time", "2", "--max-pool-size", "3"]);
    let address = server.address;
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || Client::connect(address).unwrap().get("/").unwrap()))
        .collect();
    eventually("more than the minimum", || (server.pids().len() > 1).then_some(()));
    threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap().status, 200));
    eventually("only the minimum", || (server.pids().len() == 1).then_some(()));
    eventually("the end of the others", || (server.children().len() == 1).then_some(()));
}

#[test]
fn min_instances_are_started() {
    let app = wsgi("", "return answer(os.getpid())");
    let server = Server::start(app.path(), &["--min-instances", "3"]);
    eventually("three processes", || (server.pids().len() == 3).then_some(()));
}

#[test]
fn a_full_queue_is_answered_with_503_and_retry_after() {
    let app = wsgi("", "time.sleep(1)\nreturn answer('done')");
    let server =
        Server::start(app.path(), &["--max-pool-size", "1", "--max-request-queue-size", "1"]);
    let address = server.address;
    let ask = || {
        std::thread::spawn(move || {
            let reply = Client::connect(address).unwrap().get("/").unwrap();
            let retry = reply.header("retry-after").map(str::to_owned);
            (reply.status, retry)
        })
    };
    let threads: Vec<_> = (0..4).map(|_| ask()).collect();
    let replies: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let full = replies.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!(full, 2, "{replies:?}");
    assert!(replies.iter().all(|(s, retry)| (*s == 503) == retry.is_some()), "{replies:?}");
}

#[test]
fn a_client_that_leaves_frees_its_place_in_the_queue() {
    let app = wsgi("", "time.sleep(2)\nreturn answer('done')");
    let server = Server::start(app.path(), &["--max-pool-size", "1"]);
    let mut first = server.client();
    first.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut waiting = server.client();
    waiting.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("one waiting request", || (server.status()["requests_in_queue"] == 1).then_some(()));
    std::thread::sleep(HALF_CLOSE);
    drop(waiting);
    eventually("an empty queue", || (server.status()["requests_in_queue"] == 0).then_some(()));
    assert_eq!(first.reply("GET").unwrap().status, 200);
}

#[test]
fn detach_and_restart_by_command() {
    let app = wsgi("", "return answer(os.getpid())");
    let server = Server::start(app.path(), &["-e", "production"]);
    let first = server.get("/");
    let out = run(server.runtime.path(), &["detach", &first]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let second = server.get("/");
    assert_ne!(first, second);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("new processes", || (server.get("/") != second).then_some(()));
    let out = run(server.runtime.path(), &["detach", "1"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("no process 1"));
}

#[test]
fn a_disabled_process_stays_and_gets_no_request() {
    let app = wsgi("", "return answer(os.getpid())");
    let server = Server::start(app.path(), &["-e", "production"]);
    let first = server.get("/");
    let command = |words: &[&str]| {
        let out = run(server.runtime.path(), words);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let says = command(&["disable", &first]);
    assert!(says.contains(&format!("cabrank enable {first}")), "{says}");
    let second = server.get("/");
    assert_ne!(first, second);
    assert!(command(&["status"]).contains("disabled"));
    command(&["enable", &first]);
    command(&["disable", &second]);
    assert_eq!(server.get("/"), first);
    let out = run(server.runtime.path(), &["enable", "1"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("no process 1"));
}

#[test]
fn the_status_counts_requests_and_not_the_boot() {
    let dir = wsgi("", "return answer('ok')");
    let server = Server::start(dir.path(), &[]);
    let processed = || server.status()["groups"][0]["processes"][0]["processed"].clone();
    assert_eq!(processed(), 0);
    server.get("/");
    eventually("the end of the session", || (processed() == 1).then_some(()));
}

#[test]
fn the_boot_is_none_of_the_requests_after_which_a_process_is_replaced() {
    let dir = wsgi("", "return answer(os.getpid())");
    let server = Server::start(dir.path(), &["--max-requests", "2", "--max-pool-size", "1"]);
    let pids = [0; 4].map(|_| server.get("/"));
    assert_eq!((&pids[0], &pids[2]), (&pids[1], &pids[3]));
    assert_ne!(pids[0], pids[2]);
}
