//! The connection between client and application after an upgrade to another protocol, such as WebSocket.

use super::client::Client;
use super::core::Scratch;
use super::work::{Link, Work};
use cabrank_spawner::stream::AppStream;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use tokio::io::{AsyncWriteExt, copy_bidirectional};

/// Copies bytes both ways until one side closes or the server stops. It holds the session meanwhile.
pub(crate) async fn run(client: &mut Client, scratch: &mut Scratch, work: Work) {
    let Work { link, session, .. } = work;
    let stream = match link {
        Link::Own(stream) => Some(stream),
        Link::Lent(lent) => lent.detach(),
    };
    if let Some(stream) = stream
        && let Err(e) = pass(client, scratch, stream).await
    {
        tracing::debug!("an upgraded connection ended: {e}");
    }
    drop(session);
}

async fn pass(client: &mut Client, scratch: &mut Scratch, mut app: AppStream) -> io::Result<()> {
    let Scratch { to_client, from_app, input, .. } = scratch;
    // The head of the answer, and bytes that came with it or followed the request.
    to_client.extend_from_slice(from_app.unread());
    client.stream.write_all(to_client).await?;
    app.write_all(input.unread()).await?;
    input.clear();
    let Client { stream, watch, core, .. } = client;
    let mut copy = pin!(copy_bidirectional(stream, &mut app));
    poll_fn(|cx| {
        watch.register(cx);
        if core.front.is_closing.load(std::sync::atomic::Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        copy.as_mut().poll(cx).map_ok(|_| ())
    })
    .await
}
