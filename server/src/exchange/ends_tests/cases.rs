//! Ends that need more than one request, process or moment.

use super::play::Answer;
use super::rows::Framing;
use crate::exchange::played::{Scene, Setting, eventually, read_rest, read_until, within};
use crate::observe::record::Ended;
use crate::observe::record::tests::{Facts, READ};
use cabrank_spawner::Protocol::{HttpSession, KeptSession, Session};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// A request that is safe to repeat goes to another process once, if its process has sent nothing.
#[tokio::test(start_paused = true)]
async fn a_safe_request_is_repeated_once() {
    for lane in [Session, KeptSession, HttpSession] {
        for method in ["GET", "POST"] {
            let mut scene = Scene::new(lane, 1, 2);
            let request = format!("{method} /mark HTTP/1.1\r\nHost: a\r\n\r\n");
            scene.client.write_all(request.as_bytes()).await.unwrap();
            drop(scene.request(0, b"/mark").await);
            if method == "GET" {
                let mut app = scene.request(1, b"/mark").await;
                let answer =
                    Answer { lane, framing: Framing::Length, body: vec![b'x'; 3], closes: false };
                let bytes = [answer.head(), answer.part(b"xxx"), answer.end().to_vec()].concat();
                app.write_all(&bytes).await.unwrap();
                drop(app);
                read_until(&mut scene.client, b"\r\n\r\nxxx").await;
                assert!(eventually(|| scene.notes.read() == ["ended", "ended"]).await);
            } else {
                read_until(&mut scene.client, b"HTTP/1.1 502").await;
                assert!(eventually(|| scene.notes.read() == ["ended"]).await);
            }
        }
    }
}

/// The application has not seen a request that its connection refuses, so another attempt is safe for each method.
#[tokio::test(start_paused = true)]
async fn a_refused_request_is_repeated() {
    for method in ["GET", "POST"] {
        let mut scene = Scene::new(HttpSession, 1, 2);
        let request =
            format!("{method} /mark HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        scene.client.write_all(request.as_bytes()).await.unwrap();
        let mut refuses = scene.request(0, b"body").await;
        refuses.write_all(b"\x15").await.unwrap();
        drop(refuses);
        let mut app = scene.request(1, b"body").await;
        app.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").await.unwrap();
        read_until(&mut scene.client, b"\r\n\r\nyes").await;
        assert!(eventually(|| scene.notes.read() == ["ended", "ended"]).await);
    }
}

/// Its client has got the interim answer of one process, and would get the answer of another one, which did the work again.
#[tokio::test(start_paused = true)]
async fn a_safe_request_is_not_repeated_after_an_interim_answer() {
    let early = "103 Early Hints\r\nLink: </a>\r\n\r\n";
    let kept = [&b"I\0\0"[..], &[early.len() as u8 + 8], b"Status: ", early.as_bytes()].concat();
    let http = format!("HTTP/1.1 {early}").into_bytes();
    for (lane, interim, last) in
        [(KeptSession, &kept, &b""[..]), (HttpSession, &http, b""), (HttpSession, &http, b"\x15")]
    {
        let mut scene = Scene::new(lane, 1, 2);
        scene.client.write_all(b"GET /mark HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut app = scene.request(0, b"/mark").await;
        app.write_all(interim).await.unwrap();
        read_until(&mut scene.client, b"HTTP/1.1 103").await;
        app.write_all(last).await.unwrap();
        drop(app);
        read_until(&mut scene.client, b"HTTP/1.1 502").await;
        assert!(eventually(|| scene.notes.read() == ["ended"]).await);
    }
}

/// After an upgrade both sides speak past the server, which goes on until both have ended.
#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_passes_bytes_both_ways() {
    let mut scene = Scene::new(HttpSession, 0, 1);
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly";
    scene.client.write_all(request).await.unwrap();
    let mut app = scene.request(0, b"Upgrade: echo\r\n\r\n").await;
    app.write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nfirst")
        .await
        .unwrap();
    read_until(&mut scene.client, b"\r\n\r\nfirst").await;
    read_until(&mut app, b"early").await;
    scene.client.write_all(b"to the application").await.unwrap();
    read_until(&mut app, b"to the application").await;
    app.write_all(b"to the client").await.unwrap();
    read_until(&mut scene.client, b"to the client").await;
    assert_eq!((scene.notes.read(), scene.idle()), (vec![], 0));
    drop(app);
    assert_eq!(read_rest(&mut scene.client).await, b"");
    scene.client.shutdown().await.unwrap();
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
    // The bytes that came with the request count, too.
    let received = b"earlyto the application".len() as u64;
    let sent = "HTTP/1.1 101 Switching Protocols\r\n".len() as u64;
    assert!(eventually(|| !READ.with_borrow(Vec::is_empty)).await);
    let facts = READ.take()[0];
    assert_eq!((facts.end, facts.status, facts.received), (Ended::Switched, 101, received));
    assert!(facts.sent > sent + b"firstto the client".len() as u64, "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_process_the_client_gets_a_page() {
    let mut scene = Scene::new(HttpSession, 0, 0);
    scene.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    read_until(&mut scene.client, b"HTTP/1.1 503").await;
    read_rest(&mut scene.client).await;
}

/// The future of a request is boxed for each request. It should not grow unnoticed.
#[tokio::test(start_paused = true)]
async fn a_request_has_a_small_future() {
    let size = Scene::new(HttpSession, 0, 0).size_of_a_request();
    println!("the future of a request: {size} bytes");
    assert!(size <= 3600, "{size}");
}

/// Else the second process would get a part of the body as the whole.
#[tokio::test(start_paused = true)]
async fn a_safe_request_is_not_repeated_without_the_beginning_of_its_body() {
    for lane in [Session, KeptSession, HttpSession] {
        let mut scene = Scene::new(lane, 1, 2);
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n";
        scene.client.write_all(&[&head[..], &[b'b'; 100]].concat()).await.unwrap();
        drop(scene.request(0, &[b'b'; 16]).await);
        read_until(&mut scene.client, b"HTTP/1.1 502").await;
        assert!(eventually(|| scene.notes.read() == ["ended"]).await, "{:?}", scene.notes.read());
    }
}

/// The head that an application got decides how its body is encoded. Otherwise a client could write a request of its own to
/// the application, and the next client would get the answer.
#[tokio::test(start_paused = true)]
async fn a_body_that_arrives_whole_keeps_the_coding_that_its_head_has_announced() {
    let mut scene = Scene::new(HttpSession, 1, 1);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n";
    scene.client.write_all(&[&head[..], &[b'b'; 32], b"\r\n"].concat()).await.unwrap();
    let mut app = scene.request(0, &[b'b'; 16]).await;
    let hidden = "0\r\n\r\nGET / x\r\n";
    let rest = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    scene.client.write_all(rest.as_bytes()).await.unwrap();
    read_until(&mut app, rest.as_bytes()).await;
}

/// An application that answers early may read on, but it does not hold up its client for ever.
#[tokio::test(start_paused = true)]
async fn after_an_early_answer_the_application_reads_on_for_a_while() {
    let mut scene = Scene::with(Setting { max_body: 0, ..Setting::new(HttpSession, 1, 1) });
    let (other, _) = UnixStream::pair().unwrap();
    let (mut from, mut to) = std::mem::replace(&mut scene.client, other).into_split();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    to.write_all(head).await.unwrap();
    let body = tokio::spawn(async move {
        to.write_all(&vec![b'b'; 1_000_000]).await.unwrap();
        // The rest of the body is no request.
        to.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        to
    });
    let mut app = scene.request(0, b"b").await;
    app.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").await.unwrap();
    read_until(&mut from, b"yes").await;
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
    // The paused clock moves on when all buffers are full.
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.pass(Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!body.is_finished(), "the application does not read");
    scene.pass(Duration::from_secs(7));
    within("the server reads the rest of the body", body).await.unwrap();
    read_until(&mut from, b"HTTP/1.1 503").await;
    read_rest(&mut app).await;
    assert_eq!(READ.take()[0].end, Ended::Answered);
}

/// A body that never comes is no reason to read the next request from the middle of it.
#[tokio::test(start_paused = true)]
async fn a_connection_closes_if_the_rest_of_a_body_does_not_come() {
    for lane in [Session, KeptSession] {
        let mut scene = Scene::new(lane, 1, 1);
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n";
        scene.client.write_all(&[&head[..], &[b'b'; 100]].concat()).await.unwrap();
        let mut app = scene.request(0, &[b'b'; 16]).await;
        let answer = Answer { lane, framing: Framing::Length, body: b"yes".into(), closes: false };
        let bytes = [answer.head(), answer.part(b"yes"), answer.end().to_vec()].concat();
        app.write_all(&bytes).await.unwrap();
        read_until(&mut scene.client, b"yes").await;
        assert!(!scene.has_closed());
        assert!(scene.closes().await);
    }
}

/// A reset would take the page from a client that is still sending.
#[tokio::test(start_paused = true)]
async fn the_server_reads_on_for_a_moment_after_a_bad_head() {
    let mut scene = Scene::new(HttpSession, 1, 0);
    scene.client.write_all(b"no request at all\r\n\r\n").await.unwrap();
    let page = read_rest(&mut scene.client).await;
    assert!(page.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&page));
    scene.client.write_all(&[b'b'; 1000]).await.unwrap();
    assert!(!scene.has_closed(), "the server does not read on");
    assert!(scene.closes().await);
    let sent = page.len() as u64;
    assert_eq!(READ.take(), [Facts { end: Ended::Refused, status: 400, received: 0, sent }]);
}

/// A client behind the proxy could forge its address otherwise.
#[tokio::test(start_paused = true)]
async fn only_the_first_bytes_of_a_connection_may_be_a_head_of_the_proxy_protocol() {
    let setting = Setting {
        trusted_proxies: "127.0.0.1".parse().unwrap(),
        ..Setting::new(HttpSession, 1, 1)
    };
    let mut scene = Scene::with(setting);
    let request = b"PROXY TCP4 127.0.0.1 127.0.0.1 1 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    scene.client.write_all(request).await.unwrap();
    let mut app = scene.request(0, b"X-Forwarded-For: 127.0.0.1").await;
    app.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").await.unwrap();
    read_until(&mut scene.client, b"yes").await;
    scene.client.write_all(request).await.unwrap();
    read_until(&mut scene.client, b"HTTP/1.1 400").await;
}

/// The client learns of a stop, whatever answer it gets.
#[tokio::test(start_paused = true)]
async fn at_a_stop_a_page_says_that_the_connection_closes() {
    let mut scene = Scene::new(Session, 1, 1);
    scene.client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let app = scene.request(0, b"HTTP_HOST").await;
    scene.stop();
    drop(app);
    let page = String::from_utf8_lossy(&read_rest(&mut scene.client).await).to_lowercase();
    assert!(page.contains("502") && page.contains("connection: close"), "{page}");
}

/// The deadline of a wait is that of the real clock, so a wait may be for a time-out of the paused one.
#[tokio::test(start_paused = true)]
async fn a_wait_moves_the_paused_clock_on() {
    let hour = Duration::from_secs(3600);
    within("an hour passes", tokio::time::sleep(hour)).await;
}
