//! The loader's side: it lets the application read a request and answer it, and guards what the application leaves behind.

use crate::kept::rules::Defect::{ChildGoesOn, LateReader, LateWriter};
use crate::kept::rules::Planted::{InputEndsLate, RestStays};
use crate::kept::state::{Child, KeptSession, Kind, Left, Remnant, Request, Serving};

impl KeptSession {
    /// The loader takes the head of the next request. Any other item ends the connection.
    pub fn take_head(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let item = connection.requests.remove(0);
        if item.kind != Kind::Head && !self.rules.has(RestStays) {
            return self.end_connection();
        }
        let (request, attempt) = (item.request, item.attempt);
        self.serving = Some(Serving { request, attempt, has_written: false });
        let connection = self.connections;
        let new = Left { attempt, connection, is_input_open: true, ..Left::default() };
        *self.left(request) = new;
    }

    /// The application reads, in the thread that serves the request.
    pub fn read(&mut self) {
        let Some(Serving { request, .. }) = self.serving else { return };
        self.take(request);
    }

    /// The application writes.
    pub fn write(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        serving.has_written = true;
        let Serving { request, attempt, .. } = *serving;
        self.send(request, attempt, Kind::Data);
    }

    /// The application leaves something behind.
    pub fn leave(&mut self, change: impl FnOnce(&mut Left)) {
        if let Some(Serving { request, .. }) = self.serving {
            change(self.left(request));
        }
    }

    /// The answer ends.
    pub fn end_answer(&mut self) {
        let Some(serving) = self.serving.take() else { return };
        let Serving { request, attempt, .. } = serving;
        let Left { reader, is_read, .. } = *self.left(request);
        let is_busy = reader == Remnant::Within;
        if !self.rules.has(InputEndsLate) {
            self.end_input(request);
        }
        if self.connection_of(request).is_none() {
            return;
        }
        self.send(request, attempt, Kind::End);
        if is_busy && !self.rules.original(LateReader) {
            return self.end_connection();
        }
        let discards = !is_read && !self.rules.has(RestStays);
        self.unread = discards.then_some(request);
    }

    /// The input of a request ends.
    pub fn end_input(&mut self, request: Request) {
        self.left(request).is_input_open = false;
    }

    /// The application fails within its answer.
    pub fn abort(&mut self) {
        let Some(Serving { request, attempt, .. }) = self.serving.take() else { return };
        self.end_input(request);
        if self.connection_of(request).is_some() {
            self.send(request, attempt, Kind::Abort);
            self.end_connection();
        }
    }

    /// The process dies, and another takes its place.
    pub fn crash(&mut self) {
        self.has_crashed = true;
        self.serving = None;
        self.end_connection();
        for left in &mut self.left {
            left.is_input_open = false;
            (left.reader, left.writer) = (Remnant::Ended, Remnant::Ended);
        }
    }

    /// The loader discards an item of a request whose answer has ended.
    pub fn discard(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if connection.requests.remove(0).kind == Kind::End {
            self.unread = None;
        }
    }

    /// Returns whether the answer to this attempt may still be written.
    fn is_open(&self, request: Request, attempt: u8) -> bool {
        self.serving.is_some_and(|s| (s.request, s.attempt) == (request, attempt))
    }

    /// A thread begins a read: it looks whether the input has ended.
    pub fn reader_begins(&mut self, request: Request) {
        let left = self.left(request);
        left.reader = if left.is_input_open { Remnant::Within } else { Remnant::Ended };
    }

    /// The read of a thread ends: with the next item, or with the connection.
    pub fn reader_gets(&mut self, request: Request) {
        let item = self.take(request);
        let goes_on = item.is_some_and(|item| item.kind != Kind::End);
        self.left(request).reader = if goes_on { Remnant::Free } else { Remnant::Ended };
    }

    /// A thread reads by one step: it looks whether the input has ended, and takes what is there.
    pub fn reader_takes(&mut self, request: Request) {
        self.reader_begins(request);
        if self.left(request).reader == Remnant::Within {
            self.reader_gets(request);
        }
    }

    /// A thread writes. As written, it looks whether the answer has ended, and sends later.
    pub fn writer_writes(&mut self, request: Request) {
        let left = *self.left(request);
        let next = match left.writer {
            Remnant::Free if !self.is_open(request, left.attempt) => Remnant::Ended,
            Remnant::Free if self.rules.original(LateWriter) => Remnant::Within,
            _ => {
                self.send(request, left.attempt, Kind::Data);
                Remnant::Ended
            }
        };
        self.left(request).writer = next;
    }

    /// A forked child goes on. As ruled, it leaves.
    pub fn child_goes_on(&mut self, request: Request) {
        let left = *self.left(request);
        let next = match left.child {
            Child::Runs { has_written: false } if self.rules.original(ChildGoesOn) => {
                self.send(request, left.attempt, Kind::Data);
                Child::Runs { has_written: true }
            }
            Child::Runs { has_written: true } => {
                self.send(request, left.attempt, Kind::End);
                Child::Left
            }
            _ => Child::Left,
        };
        self.left(request).child = next;
    }

    /// A forked child reads from the socket of its parent.
    pub fn child_reads(&mut self, request: Request) {
        self.take(request);
    }
}
