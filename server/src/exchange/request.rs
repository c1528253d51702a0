//! One request, whatever protocol it has come by.

use crate::exchange::served::Served;
use crate::exchange::serving::Serving;
use crate::lane::Message;
use crate::observe::record::Record;
use crate::request::body::Body;
use crate::request::head::{BadRequest, Head};
use crate::request::mount;
use crate::request::origin::Forwarded;
use crate::request::peer::Peer;
use std::sync::Arc;

/// One request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: &'a Head,
    /// The addresses of the client's connection.
    pub(crate) peer: Peer,
    /// The client, as far as the server believes it.
    pub(crate) origin: Forwarded,
    pub(crate) body: Body,
    /// The length of the path below which the application is served, or why it is not served there.
    mount: Result<usize, BadRequest>,
    /// The application that answers it.
    pub(crate) application: &'a Arc<Served>,
    /// The facts about it, for their readers.
    pub(crate) record: Record<'a>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(serving: &'a Serving, head: &'a Head, peer: Peer) -> Self {
        let limits = &serving.limits;
        let origin = Forwarded::of(head, &peer, &serving.trust);
        if !origin.from_proxy {
            serving.trust.note_fields(head, origin.remote);
        }
        let application = serving.application_of(head);
        let mount = mount::of(head, &application.base_uri);
        if mount.is_err() {
            application.note_outside();
        }
        Request {
            head,
            peer,
            record: Record::new(head, origin.remote),
            origin,
            body: Body::new(head.framing(), limits.max_body, || serving.buffers.request()),
            mount,
            application,
        }
    }

    /// Checks whether the application may get the request.
    ///
    /// # Errors
    /// The server refuses it.
    pub(crate) fn is_acceptable(&self) -> Result<(), BadRequest> {
        self.mount.as_ref().map_err(Clone::clone)?;
        self.body.is_acceptable()
    }

    /// Returns the request as a process gets it.
    pub(crate) fn message(&self) -> Message<'_> {
        let Request { head, peer, origin, .. } = self;
        let underscores = self.application.underscores;
        // A request with another one is refused before.
        let mount = self.mount.as_ref().copied().unwrap_or_default();
        Message { head, peer, origin, framing: self.body.framing(), mount, underscores }
    }
}
