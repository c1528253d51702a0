//! The body of a response, passed on as it arrives.
//!
//! The body holds its session until the application has sent its end or the client has left.

use crate::app::Session;
use crate::app::connections::Lent;
use crate::app::stream::AppStream;
use crate::chain::Chain;
use crate::http::BoxError;
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::fmt::Display;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt, ReadHalf};
use tokio::task::JoinHandle;

/// The number of bytes that one read asks for.
const CHUNK: usize = 32 * 1024;

/// The body of a response to a client.
pub(crate) enum ResponseBody {
    /// A body of the agent itself, or an empty body.
    Whole(Option<Bytes>),
    Session(Box<SessionBody>),
    Http(Box<HttpBody>),
}

impl ResponseBody {
    pub(crate) fn empty() -> Self {
        ResponseBody::Whole(None)
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        ResponseBody::Whole(Some(text.into()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            ResponseBody::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            ResponseBody::Session(body) => {
                body.poll_chunk(cx).map(|chunk| chunk.map(|c| c.map(Frame::data)))
            }
            ResponseBody::Http(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(bytes) => bytes.is_none(),
            ResponseBody::Session(body) => body.held.is_none() && body.begun.is_empty(),
            ResponseBody::Http(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            ResponseBody::Session(body) => match body.left {
                Some(left) => SizeHint::with_exact(left),
                None => SizeHint::default(),
            },
            ResponseBody::Http(body) => body.incoming.size_hint(),
        }
    }
}

/// The body of an answer in the session protocol.
pub(crate) struct SessionBody {
    /// Bytes that were read and not yet returned.
    begun: BytesMut,
    /// The part of the declared length that was not yet returned.
    left: Option<u64>,
    /// The session, until the application has sent the whole answer.
    held: Option<Held>,
}

/// The resources of an exchange, released once the application has sent the whole answer.
pub(crate) struct Held {
    pub(crate) session: Session,
    pub(crate) reader: Reader,
    /// Dropping the pump ends its task.
    pub(crate) _pump: Option<Pump>,
}

/// The reading side of the connection.
#[derive(Debug)]
pub(crate) enum Reader {
    Whole(AppStream),
    /// The other half is still sending the request's body.
    Half(ReadHalf<AppStream>),
}

impl Reader {
    pub(crate) async fn read(&mut self, into: &mut BytesMut) -> std::io::Result<usize> {
        match self {
            Reader::Whole(stream) => stream.read_buf(into).await,
            Reader::Half(half) => half.read_buf(into).await,
        }
    }
}

/// The task that sends the request's body. It ends with its exchange.
#[derive(Debug)]
pub(crate) struct Pump(pub(crate) JoinHandle<()>);

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SessionBody {
    /// `begun` are the bytes of the body that arrived with the head.
    pub(crate) fn new(begun: BytesMut, length: Option<u64>, held: Held) -> Self {
        let mut body = SessionBody { begun, left: length, held: Some(held) };
        body.release_if_complete();
        body
    }

    /// Releases the session if the declared length has arrived, so that the process can serve again.
    fn release_if_complete(&mut self) {
        if let Some(left) = self.left
            && self.begun.len() as u64 >= left
        {
            self.begun.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.held = None;
        }
    }

    fn give(&mut self) -> Bytes {
        let chunk = self.begun.split().freeze();
        if let Some(left) = &mut self.left {
            *left -= chunk.len() as u64;
        }
        chunk
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        if !self.begun.is_empty() {
            return Poll::Ready(Some(Ok(self.give())));
        }
        let Some(held) = &mut self.held else { return Poll::Ready(None) };
        self.begun.reserve(CHUNK);
        let read = ready!(pin!(held.reader.read(&mut self.begun)).poll(cx));
        match read {
            Ok(0) => Poll::Ready(self.end_of_input().err().map(Err)),
            Ok(_) => {
                self.release_if_complete();
                Poll::Ready(Some(Ok(self.give())))
            }
            Err(e) => {
                self.broke_off(&Chain(&e));
                Poll::Ready(Some(Err(e.into())))
            }
        }
    }

    /// Handles the end of the connection.
    ///
    /// Without a declared length, that is the regular end of an answer. But the connection also closes
    /// when the process is killed within an answer.
    fn end_of_input(&mut self) -> Result<(), BoxError> {
        let Some(held) = &self.held else { return Ok(()) };
        if self.left.is_some() || held.session.process.is_dying() {
            self.broke_off(&"the application closed the connection");
            return Err("the application's answer ended early".into());
        }
        self.held = None;
        Ok(())
    }

    fn broke_off(&mut self, why: &dyn Display) {
        if let Some(held) = self.held.take() {
            release_broken(held.session, why);
        }
    }
}

/// Logs that an answer ended early, and releases its session. A dying process leaves the pool.
fn release_broken(session: Session, why: &dyn Display) {
    let process = &session.process;
    tracing::warn!(pid = process.pid, "App {}: its answer ended early: {why}", process.pid);
    if process.is_dying() {
        Session::fail(session);
    }
}

/// The body of an answer in HTTP.
pub(crate) struct HttpBody {
    incoming: Incoming,
    /// The session, until the application has sent the whole answer. Dropping it earlier closes the
    /// connection.
    held: Option<(Session, Lent)>,
}

impl HttpBody {
    pub(crate) fn new(incoming: Incoming, session: Session, connection: Lent) -> Self {
        let mut body = HttpBody { incoming, held: Some((session, connection)) };
        body.release_if_complete();
        body
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => self.release_if_complete(),
            None => self.release(),
            Some(Err(e)) => {
                if let Some((session, connection)) = self.held.take() {
                    drop(connection); // closes it
                    release_broken(session, e);
                }
            }
        }
        Poll::Ready(frame.map(|f| f.map_err(Into::into)))
    }

    fn release_if_complete(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    /// Releases the connection before the session, so that the next session can borrow it.
    fn release(&mut self) {
        if let Some((session, connection)) = self.held.take() {
            connection.keep();
            drop(session);
        }
    }
}
