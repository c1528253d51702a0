//! The protocols of applications.
//!
//! [`session`] has one connection a request, [`kept`] has frames on a connection that stays, and [`http`] is HTTP/1.1.
//! [`pairs`] encodes requests of the session protocols, and [`reply_head`] parses heads. [`parts`] has the words that all
//! lanes use of a request and its answer.
//!
//! A new protocol is a file with the functions of [`session`], and a variant of [`Protocol`](cabrank_spawner::Protocol),
//! where loaders name it. Each `match` in this file lists a function that the protocol needs.

pub(crate) mod http;
pub(crate) mod kept;
pub(crate) mod pairs;
mod parts;
pub(crate) mod reply_head;
pub(crate) mod session;

use crate::lane::http::{Http, Receiver};
use crate::lane::kept::Kept;
use crate::lane::reply_head::ReplyHead;
use crate::lane::session::Session;
use crate::request::head::{AnswerTo, BadRequest, RequestFraming};
use cabrank::application_pool::ConnectError;
use cabrank_spawner::Protocol;
use cabrank_spawner::process::{AppConnection, AppInfo};
use cabrank_spawner::stream::AppStream;
pub(crate) use parts::{Abandon, Closed, Found, Message, Reached, Step};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// One request's connection to a process. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Lane {
    wire: Wire,
    /// The coding of the request's body, as the head has announced it. The body itself may have got a length since.
    framing: RequestFraming,
    /// How far the request has come, as long as it has no answer.
    reached: Reached,
}

#[derive(Debug)]
enum Wire {
    Session(Session),
    Kept(Kept),
    Http(Http),
}

macro_rules! each {
    ($lane:expr, $wire:ident => $call:expr) => {
        match $lane {
            Wire::Session($wire) => $call,
            Wire::Kept($wire) => $call,
            Wire::Http($wire) => $call,
        }
    };
}

impl Lane {
    /// Appends the head of a request to `out`, in the protocol of the process.
    ///
    /// # Errors
    /// The request cannot be expressed in this protocol.
    pub(crate) fn push_head(
        out: &mut Vec<u8>,
        to: &AppConnection,
        message: Message<'_>,
    ) -> Result<(), BadRequest> {
        let process = &to.process;
        let password = &process.password;
        match process.protocol {
            Protocol::Session => pairs::session_pairs(out, message, password, false),
            Protocol::KeptSession => {
                pairs::session_pairs(out, message, password, process.takes_upgrades)
            }
            Protocol::HttpSession => {
                let receiver = Receiver {
                    is_foreign: process.endpoint.is_foreign(),
                    password: process.takes_origin.then_some(password),
                };
                http::push_head(out, message, receiver);
                Ok(())
            }
        }
    }

    /// Opens or borrows the connection of a request of this core. `framing` is the coding that its head announces.
    ///
    /// # Errors
    /// The process takes no connection, or the server can open none.
    pub(crate) async fn open(
        to: &mut AppConnection,
        core: usize,
        framing: RequestFraming,
    ) -> Result<Lane, ConnectError> {
        let process = &to.process;
        let borrow = || process.connections.borrow(&process.endpoint, core);
        let wire = match process.protocol {
            Protocol::Session => {
                let opened = to.opened.take();
                let opened =
                    opened.ok_or_else(|| ConnectError::local("the session has no connection"))?;
                let stream = AppStream::finish(opened, &process.endpoint.address).await?;
                Wire::Session(Session::new(stream))
            }
            Protocol::KeptSession => Wire::Kept(Kept::new(borrow().await?)),
            Protocol::HttpSession => Wire::Http(Http::new(borrow().await?)),
        };
        Ok(Lane { wire, framing, reached: Reached::NotTheApp })
    }

    /// Returns the connection.
    pub(crate) fn stream(&mut self) -> &mut AppStream {
        each!(&mut self.wire, wire => wire.stream())
    }

    /// Appends a part of the request's body, which is not empty.
    pub(crate) fn push_body(&self, out: &mut Vec<u8>, part: &[u8]) {
        each!(&self.wire, wire => wire.push_body(out, self.framing, part));
    }

    /// Appends the mark that ends the request's body.
    pub(crate) fn push_end(&self, out: &mut Vec<u8>) {
        each!(&self.wire, wire => wire.push_end(out, self.framing));
    }

    /// Writes once.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream()).poll_write(cx, bytes);
        if matches!(written, Poll::Ready(Ok(_))) && self.reached == Reached::NotTheApp {
            self.reached = Reached::TheApp;
        }
        written
    }

    /// Notes that the whole request was written.
    pub(crate) fn end_request(&mut self) {
        match &mut self.wire {
            Wire::Session(session) => session.end_request(),
            // The end of the body is encoded.
            Wire::Kept(_) | Wire::Http(_) => {}
        }
    }

    /// Returns whether any byte of the request was sent, and may have reached the application.
    pub(crate) fn has_written(&self) -> bool {
        self.reached != Reached::NotTheApp
    }

    /// Returns how far a request without an answer has come.
    pub(crate) fn reached(&self) -> Reached {
        self.reached
    }

    /// Decodes the next part of the answer.
    ///
    /// # Errors
    /// The bytes are not an answer. The text is for the log.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        let step = each!(&mut self.wire, wire => wire.step(input, reply, to))?;
        match step.what {
            Found::Interim => self.reached = Reached::Interim,
            Found::Refusal if self.reached == Reached::TheApp => self.reached = Reached::NotTheApp,
            _ => {}
        }
        Ok(step)
    }

    /// Returns whether the head of the answer has not arrived yet.
    pub(crate) fn is_at_head(&self) -> bool {
        each!(&self.wire, wire => wire.is_at_head())
    }

    /// Returns whether the application has sent the whole answer.
    pub(crate) fn is_at_end(&self) -> bool {
        each!(&self.wire, wire => wire.is_at_end())
    }

    /// Returns what the end of the connection means now.
    pub(crate) fn closed(&self) -> Closed {
        each!(&self.wire, wire => wire.closed())
    }

    /// Ends the answer with the connection.
    pub(crate) fn end_with_connection(&mut self) {
        each!(&mut self.wire, wire => wire.end_with_connection());
    }

    /// Returns whether the application may go on reading the request after its answer, while it takes others.
    pub(crate) fn reads_on(&self) -> bool {
        match self.wire {
            Wire::Http(_) => true,
            Wire::Session(_) | Wire::Kept(_) => false,
        }
    }

    /// Gives the connection back after a whole exchange.
    ///
    /// `is_clean`: the application got the whole request, and no bytes follow its answer.
    pub(crate) fn give_back(self, reply: &ReplyHead, is_clean: bool) {
        match self.wire {
            Wire::Kept(kept) if is_clean => kept.give_back(),
            Wire::Http(http) if is_clean => http.give_back(reply, self.framing),
            // The drop closes the connection.
            Wire::Session(_) | Wire::Kept(_) | Wire::Http(_) => {}
        }
    }

    /// Returns how the work for a client that has left ends. `is_limited`: the process takes a limited number of
    /// requests at once.
    pub(crate) fn abandon(&self, is_limited: bool) -> Abandon {
        match self.wire {
            _ if !self.has_written() => Abandon::AtOnce,
            Wire::Kept(_) => Abandon::AtItsEnd,
            Wire::Http(_) if !is_limited => Abandon::AtOnce,
            Wire::Session(_) | Wire::Http(_) => Abandon::AfterFirstByte,
        }
    }

    /// Returns whether the process may switch to another protocol, if the client has asked for one.
    ///
    /// A kept session has told only a process that takes upgrades of it. Without a body, the switch stands between all bytes of
    /// the request and those of the other protocol.
    pub(crate) fn may_switch(&self, process: &AppInfo) -> bool {
        match self.wire {
            Wire::Http(_) => true,
            Wire::Kept(_) => process.takes_upgrades && !self.framing.has_bytes(),
            Wire::Session(_) => false,
        }
    }

    /// Returns the connection for another protocol.
    pub(crate) fn into_stream(self) -> Option<AppStream> {
        match self.wire {
            Wire::Session(session) => Some(session.into_stream()),
            Wire::Kept(kept) => kept.into_stream(),
            Wire::Http(http) => http.into_stream(),
        }
    }
}
