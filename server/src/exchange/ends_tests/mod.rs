//! Table tests of the ends of an exchange.
//!
//! Each row names a cause and a state of the answer, and what follows: the client's bytes, and the fate of session and
//! connection. `cargo test -p cabrank-server each_end -- --nocapture` prints the table.
//!
//! A row is played for each protocol that it names, with an answer of a known length and with one of an unknown length. Each
//! play is repeated with a client that has ended its output (half-close).

mod play;
mod rows;

use super::played::{Scene, eventually, read_rest, read_until};
use crate::observe::record::tests::READ;
use cabrank_spawner::Protocol::{HttpSession, KeptSession, Session};
use play::{Answer, play};
use rows::{Framing, ROWS};
use tokio::io::AsyncWriteExt;

#[tokio::test(start_paused = true)]
async fn each_end_in_each_state_of_the_answer() {
    let mut failures = Vec::new();
    let mut played = 0;
    println!(
        "{:<28}{:<9}{:<50}{:<11}{:<12}{:<8}fate",
        "cause", "answer", "protocols, framings", "end", "client", "then"
    );
    for row in ROWS {
        let variants = format!("{:?} {:?}", row.lanes, row.framings);
        println!(
            "{:<28}{:<9}{variants:<50}{:<11}{:<12}{:<8}{:?}",
            format!("{:?}", row.cause),
            format!("{:?}", row.state),
            format!("{:?}", row.end),
            format!("{:?}", row.got),
            format!("{:?}", row.then),
            row.fate
        );
        for &lane in row.lanes {
            for &framing in row.framings {
                for half_closes in [false, true] {
                    if half_closes && !row.cause.allows_half_close() {
                        continue;
                    }
                    played += 1;
                    let variant = format!(
                        "{:?} {:?} {lane:?} {framing:?} half-closed: {half_closes}",
                        row.cause, row.state
                    );
                    if let Err(wrong) = play(row, lane, framing, half_closes).await {
                        failures.push(format!("{variant}: {wrong}"));
                    }
                    // A connection that stays has had another request.
                    let ends: Vec<_> = READ.take().into_iter().map(|facts| facts.end).collect();
                    if ends.first() != Some(&row.end) {
                        failures.push(format!("{variant}: the records end with {ends:?}"));
                    }
                }
            }
        }
    }
    println!("{} rows, played {played} times", ROWS.len());
    assert!(failures.is_empty(), "{} of {played}:\n{}", failures.len(), failures.join("\n"));
}

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
                let answer = Answer { lane, framing: Framing::Length, body: vec![b'x'; 3] };
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
