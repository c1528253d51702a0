//! More clients than the server has descriptors for, and clients that come at the last moment.

use crate::server::{Server, Signal, eventually, wsgi};
use cabrank_checks_harness::Client;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn idle_connections_beyond_the_limit_are_closed_oldest_first() {
    let dir = wsgi("", "return answer('served')");
    let server = Server::start(dir.path(), &["--max-connections", "50", "--threads", "1"]);
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..150 {
        let mut client = server.client();
        assert_eq!(client.get("/").unwrap().text(), "served");
        clients.push(client);
    }
    let oldest = clients.iter_mut().take(100).filter_map(|client| client.get("/").ok()).count();
    assert_eq!(oldest, 0, "connections that were to be closed");
    for client in &mut clients[110..] {
        assert_eq!(client.get("/").unwrap().text(), "served");
    }
    assert_eq!(server.status()["max_pool_size"].as_u64().map(|_| ()), Some(()));
    server.logs("limit of 50 connections");
    let lines = server.log().matches("limit of 50 connections").count();
    assert_eq!(lines, 1, "{}", server.log());
}

/// Connections that owe the head of a request make room, and those that wait between two requests stay.
#[test]
fn connections_that_send_no_request_make_room_first() {
    let dir = wsgi("", "return answer('served')");
    let options = ["--max-connections", "20", "--threads", "1"];
    // With a proxy, a silent connection owes the head of the PROXY protocol.
    for trusted in ["none", "127.0.0.1"] {
        let options = &[&options[..], &["--trusted-proxies", trusted]].concat();
        for part in [&b""[..], b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", b"PROXY "] {
            let server = Server::start(dir.path(), options);
            let mut used = server.client();
            assert_eq!(used.get("/").unwrap().status, 200);
            let _silent: Vec<Client> = (0..19)
                .map(|_| {
                    let mut client = server.client();
                    client.send(part).unwrap();
                    client
                })
                .collect();
            for _ in 0..20 {
                // The server may not have read the last of the silent clients.
                eventually("an answer", || {
                    server.client().get("/").ok().filter(|r| r.status == 200)
                });
            }
            assert_eq!(used.get("/").unwrap().status, 200, "{part:?}");
        }
    }
}

/// Clients that have their last answer, and send neither the rest nor an end, keep no place.
#[test]
fn connections_that_have_their_last_answer_make_room_first() {
    let dir = wsgi("", "return answer('served')");
    let options = ["--max-connections", "20", "--threads", "1", "--max-body", "1000"];
    let refused = [
        (413, &b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nx"[..]),
        (400, b"\x16\x03\x01\x02\0\x01\0\r\n\r\n"),
    ];
    for (status, request) in refused {
        let server = Server::start(dir.path(), &options);
        let mut used = server.client();
        assert_eq!(used.get("/").unwrap().status, 200);
        let mut owing = server.client();
        owing.send(b"GET / HTTP/1.1\r\n").unwrap();
        let answered: Vec<Client> = (0..18)
            .map(|_| {
                let mut client = server.client();
                client.send(request).unwrap();
                assert_eq!(client.reply("POST").unwrap().status, status);
                client
            })
            .collect();
        // The last of them may not wait for input yet.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut healthy: Vec<Client> = (0..18).map(|_| server.client()).collect();
        for client in &mut healthy {
            assert_eq!(client.get("/").unwrap().status, 200, "{status}");
        }
        assert_eq!(used.get("/").unwrap().status, 200, "{status}");
        owing.send(b"Host: a\r\n\r\n").unwrap();
        assert_eq!(owing.reply("GET").unwrap().status, 200, "{status}");
        drop(answered);
    }
}

#[test]
fn a_connection_beyond_the_limit_is_refused_at_once_if_all_are_busy() {
    let dir = wsgi("", "time.sleep(1)\nreturn answer('done')");
    let server = Server::start(dir.path(), &["--max-connections", "2"]);
    let mut busy = [server.client(), server.client()];
    for client in &mut busy {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    eventually("two requests", || {
        let status = server.status();
        let queued = status["requests_in_queue"].as_u64()?;
        (queued + status["active"].as_u64()? == 2).then_some(())
    });
    let reply = server.client().reply("GET").unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    for client in &mut busy {
        assert_eq!(client.reply("GET").unwrap().status, 200);
    }
}

#[test]
fn a_graceful_stop_answers_every_client_that_has_connected() {
    let dir = wsgi("", "time.sleep(0.005)\nreturn answer('answered')");
    let options = ["--max-pool-size", "2", "--min-instances", "2", "--max-request-queue-size", "0"];
    let mut server = Server::start(dir.path(), &options);
    let (to, connected) = (server.address, &AtomicUsize::new(0));
    let failed: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..200)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = Client::connect(to).unwrap();
                    connected.fetch_add(1, Ordering::Relaxed);
                    client.get("/").map(|reply| (reply.status, reply.text()))
                })
            })
            .collect();
        eventually("200 connections", || (connected.load(Ordering::Relaxed) == 200).then_some(()));
        server.signal(Signal::TERM);
        let ends = clients.into_iter().map(|client| client.join().unwrap());
        ends.filter(|end| end.as_ref().ok() != Some(&(200, "answered".into())))
            .map(|end| format!("{end:?}"))
            .collect()
    });
    assert!(failed.is_empty(), "{} of 200 clients: {failed:?}", failed.len());
    assert!(server.ended().success());
}
