//! Cases of what is held: by another process that has the connection of one that is gone, and for a client that reads nothing.

use crate::connection::watched::HALF_CLOSE;
use crate::exchange::played::{LIMITS, MAX_REQUEST_TIME, Scene, eventually, read_rest, read_until};
use cabrank_spawner::Protocol::{HttpSession, KeptSession, Session};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// A daemon of the process holds the connection open: here, the test.
#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_ends_with_its_process_whoever_holds_it() {
    let (mut scene, mut held) = upgraded().await;
    held.write_all(b"the last words").await.unwrap();
    scene.kill(0);
    scene.notice(0);
    assert_eq!(read_rest(&mut scene.client).await, b"the last words");
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n";

/// Returns a scene with an upgraded connection, and the application's end of it.
async fn upgraded() -> (Scene, UnixStream) {
    let mut scene = Scene::new(HttpSession, 0, 1);
    scene.client.write_all(UPGRADE).await.unwrap();
    let mut app = scene.request(0, b"Upgrade: echo\r\n\r\n").await;
    app.write_all(SWITCHING).await.unwrap();
    read_until(&mut scene.client, b"\r\n\r\n").await;
    (scene, app)
}

/// Writes until the other side takes nothing more.
async fn flood(to: &mut UnixStream) {
    let bytes = [b'a'; 16 * 1024];
    while let Ok(written) = tokio::time::timeout(Duration::from_secs(1), to.write_all(&bytes)).await
    {
        written.unwrap();
    }
}

/// Lets the time of an upgraded connection pass until its session has ended.
///
/// It passes again and again: a byte that the server has yet to see begins the time anew.
async fn ends_in_time(scene: &mut Scene) -> bool {
    eventually(|| {
        scene.pass(LIMITS.timeouts.upgraded);
        scene.notes.read() == ["ended"]
    })
    .await
}

/// The end of the process lies behind bytes that its client does not take.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_holds_no_upgraded_connection_of_a_process_that_is_gone() {
    let (mut scene, mut app) = upgraded().await;
    flood(&mut app).await;
    scene.kill(0);
    scene.notice(0);
    drop(app);
    assert!(ends_in_time(&mut scene).await);
}

/// The process lives, but has closed this connection.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_holds_no_upgraded_connection_that_its_application_has_closed()
{
    let (mut scene, mut app) = upgraded().await;
    flood(&mut app).await;
    drop(app);
    assert!(ends_in_time(&mut scene).await);
}

/// The end of the client lies behind bytes that the application does not take.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_holds_no_upgraded_connection_of_an_application_that_does_not_read() {
    for (closes, late) in [(true, false), (true, true), (false, false), (false, true)] {
        let (mut scene, _app) = upgraded().await;
        flood(&mut scene.client).await;
        if late {
            // The client waits for longer than the server would let it wait once it has left.
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                scene.pass(LIMITS.timeouts.upgraded);
            }
            assert_eq!(scene.notes.read(), [""; 0]);
        }
        if closes {
            let (other, _) = UnixStream::pair().unwrap();
            drop(std::mem::replace(&mut scene.client, other));
        } else {
            scene.client.shutdown().await.unwrap();
        }
        assert!(ends_in_time(&mut scene).await, "{closes} {late}");
    }
}

/// A stop asks the process to leave, which waits for its client.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_delays_no_stop() {
    let (mut scene, mut app) = upgraded().await;
    flood(&mut app).await;
    scene.stop();
    // The session has ended, and the connection goes on.
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
    let mut taken = [0; 1];
    assert_eq!(
        app.try_read(&mut taken).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "the client has its time"
    );
    let rest = tokio::spawn(async move { read_rest(&mut app).await });
    let ends = eventually(|| {
        scene.pass(LIMITS.timeouts.upgraded);
        rest.is_finished()
    });
    assert!(ends.await, "the connection goes on");
}

/// As above. No client waits, but the session would last.
#[tokio::test(start_paused = true)]
async fn the_work_for_a_client_that_has_left_ends_with_its_process_whoever_holds_its_connection() {
    for lane in [Session, KeptSession, HttpSession] {
        let mut scene = Scene::new(lane, 1, 1);
        let request =
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nthe beginning of a body";
        scene.client.write_all(request).await.unwrap();
        let mut held = scene.request(0, b"the beginning").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (other, _) = UnixStream::pair().unwrap();
        drop(std::mem::replace(&mut scene.client, other));
        read_rest(&mut held).await;
        assert_eq!(scene.notes.read(), [] as [&str; 0]);
        scene.kill(0);
        scene.notice(0);
        let ended = eventually(|| scene.notes.read() == ["ended"]).await;
        assert!(ended, "{lane:?}: {:?}", scene.notes.read());
    }
}

/// A client that reads nothing stops an application that sends interim answers without end.
#[tokio::test(start_paused = true)]
async fn interim_answers_wait_for_their_client() {
    const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\nX-A: 0123456789\r\n\r\n";
    let mut scene = Scene::new(HttpSession, 0, 1);
    scene.client.write_all(b"GET /mark HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut app = scene.request(0, b"/mark").await;
    let hints = HINT.repeat(100);
    // The kernel and the server take a bounded part of it.
    let mut sent = 0;
    while let Ok(written) =
        tokio::time::timeout(Duration::from_secs(5), app.write_all(&hints)).await
    {
        written.unwrap();
        sent += hints.len();
        assert!(sent < 16 << 20, "the server takes interim answers without end");
    }
    // An answer that ends early leaves a part of an interim answer, behind which no page can stand.
    drop(app);
    let seen = read_rest(&mut scene.client).await;
    assert!(!String::from_utf8_lossy(&seen).contains(" 502 "));
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
}

/// The client may send its next request at once, over another connection.
#[tokio::test(start_paused = true)]
async fn an_answer_that_its_client_has_whole_is_about_to_end_until_its_session_has_ended() {
    for leaves in [false, true] {
        let mut scene = Scene::new(KeptSession, 1, 1);
        scene.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut app = scene.request(0, b"HTTP_HOST").await;
        assert!(!scene.endings.is_any());
        let head = b"Status: 200 OK\r\nContent-Length: 3\r\n\r\n";
        let answer = [&[b'H', 0, 0, head.len() as u8], &head[..], b"D\0\0\x03yes"].concat();
        app.write_all(&answer).await.unwrap();
        read_until(&mut scene.client, b"yes").await;
        assert!(scene.endings.is_any() && scene.notes.read().is_empty());
        if leaves {
            tokio::time::sleep(HALF_CLOSE).await;
            let (other, _) = UnixStream::pair().unwrap();
            drop(std::mem::replace(&mut scene.client, other));
            let sees_it = eventually(|| {
                scene.pass(Duration::from_secs(1));
                app.try_read(&mut [0; 16]).is_ok_and(|count| count == 0)
            });
            assert!(sees_it.await);
            assert!(scene.endings.is_any() && scene.notes.read().is_empty());
        }
        app.write_all(b"E\0\0\0").await.unwrap();
        assert!(eventually(|| !scene.endings.is_any()).await);
        assert_eq!(scene.notes.read(), ["ended"], "the session ends first");
    }
}

/// An answer of events lasts as long as its client wants, and any other one is work.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_does_not_hold_for_a_stream_of_events() {
    for (kind, lasts) in [
        ("text/event-stream", true),
        ("Text/Event-Stream; charset=utf-8", true),
        ("text/html", false),
    ] {
        let mut scene = Scene::new(HttpSession, 1, 1);
        scene.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut app = scene.request(0, b"GET /").await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\ndata: 1\n\n");
        app.write_all(head.as_bytes()).await.unwrap();
        read_until(&mut scene.client, b"data: 1").await;
        scene.pass(MAX_REQUEST_TIME * 2);
        if lasts {
            // The server has looked at the time when it passes this on.
            app.write_all(b"data: 2\n\n").await.unwrap();
            read_until(&mut scene.client, b"data: 2").await;
            assert!(scene.notes.read().is_empty(), "{kind}");
            drop(app);
            read_until(&mut scene.client, b"0\r\n\r\n").await;
        } else {
            assert!(eventually(|| scene.notes.read() == ["failed", "ended"]).await, "{kind}");
        }
    }
}
