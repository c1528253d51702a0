//! The words of a story: each step as a sentence, and a drawing of the connection.

use crate::kept::machine::{Action, Config};
use crate::kept::state::{Child, Foreign, Item, KeptSession, Kind, Remnant, Request};

/// Describes the session in a line.
pub fn opening(config: &Config) -> String {
    format!("The session: {}. Clients: {}.\n", config.about, names(config.requests))
}

/// Says whose bytes came to the wrong place.
pub fn foreign(s: &KeptSession) -> String {
    match s.foreign {
        Some(Foreign::Read(reader, owner)) => {
            let [reader, owner] = [reader, owner].map(name);
            format!("The input of {reader}'s request has yielded bytes of {owner}'s.\n")
        }
        Some(Foreign::Got(client, owner)) => {
            let [client, owner] = [client, owner].map(name);
            format!("The client {client} has got bytes of {owner}'s answer.\n")
        }
        None => String::new(),
    }
}

fn name(request: Request) -> &'static str {
    ["alice", "bob", "carol"].get(usize::from(request)).unwrap_or(&"another")
}

fn names(count: usize) -> String {
    (0..count as Request).map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the sentence for a step.
pub fn sentence(s: &KeptSession, action: Action) -> String {
    let served = s.serving.map_or("no client", |serving| name(serving.request));
    let awaited = s.awaited.map_or("no client", name);
    let next = s.next_request().map_or("no client", name);
    match action {
        Action::Connect => "The server opens a connection to the process.".into(),
        Action::Begin => format!("The server sends the head of {next}'s request."),
        Action::Send => {
            let item = s.to_send.first().map_or("an item".into(), item);
            format!("The server sends {item}.")
        }
        Action::Receive => {
            let first = s.connection.as_ref().and_then(|c| c.answers.first());
            let item = first.map_or("nothing".into(), answer);
            format!("The server, which awaits {awaited}'s answer, receives {item}.")
        }
        Action::NoticeEnd => "The server notices the end of the connection.".into(),
        Action::Abandon { at_once: true } => {
            format!("The client {awaited} leaves; the server closes the connection.")
        }
        Action::Abandon { at_once: false } => {
            format!(
                "The client {awaited} leaves; the server half-closes the connection, and awaits the end of the answer."
            )
        }
        Action::TakeHead => {
            let first = s.connection.as_ref().and_then(|c| c.requests.first());
            let item = first.map_or("nothing".into(), item);
            format!("The loader takes {item}.")
        }
        Action::Read => format!("The application, which serves {served}, reads."),
        Action::Write => format!("The application writes a part of {served}'s answer."),
        Action::EndAnswer => format!("The application returns: {served}'s answer ends."),
        Action::EndInput(request) => format!("The input of {}'s request ends.", name(request)),
        Action::Abort => format!("The application fails: {served}'s answer is aborted."),
        Action::Crash => "The process dies, and another takes its place.".into(),
        Action::Discard => "The loader discards an item that was not read.".into(),
        Action::LeaveReader => {
            format!("The application leaves a thread behind that reads {served}'s request.")
        }
        Action::ReaderBegins(r) => format!(
            "The thread begins to read {}'s request: it looks whether the request has ended.",
            name(r)
        ),
        Action::ReaderGets(r) => format!("The read of {}'s request takes what has come.", name(r)),
        Action::ReaderTakes(r) => format!("The thread reads {}'s request.", name(r)),
        Action::LeaveWriter => {
            format!("The application leaves a thread behind that writes {served}'s answer.")
        }
        Action::WriterWrites(r) => match s.left[usize::from(r)].writer {
            Remnant::Within => format!("The thread sends a part of {}'s answer.", name(r)),
            _ => format!(
                "The thread writes to {}'s answer: it looks whether the answer has ended.",
                name(r)
            ),
        },
        Action::Fork => format!("The application, which serves {served}, forks."),
        Action::ChildGoesOn(r) => match s.left[usize::from(r)].child {
            Child::Runs { has_written: true } => format!("The child ends {}'s answer.", name(r)),
            _ => format!("The child goes on with {}'s answer.", name(r)),
        },
        Action::ChildReads(r) => format!("The child reads {}'s request.", name(r)),
    }
}

fn item(item: &Item) -> String {
    let of = name(item.request);
    match item.kind {
        Kind::Head => format!("the head of {of}'s request"),
        Kind::End => format!("the end of {of}'s request"),
        _ => format!("a part of {of}'s request"),
    }
}

fn answer(item: &Item) -> String {
    let of = name(item.request);
    match item.kind {
        Kind::End => format!("the end of {of}'s answer"),
        Kind::Abort => format!("the abort of {of}'s answer"),
        _ => format!("a part of {of}'s answer"),
    }
}

/// Draws the connection: the items on their way, the next one first.
pub fn draw(s: &KeptSession) -> String {
    let Some(connection) = &s.connection else { return "   no connection\n".into() };
    let list = |items: &[Item], text: fn(&Item) -> String| match items.is_empty() {
        true => "nothing".to_owned(),
        false => items.iter().map(text).collect::<Vec<_>>().join(", "),
    };
    let mut drawn = format!(
        "   to the loader: {}\n   to the server: {}\n",
        list(&connection.requests, item),
        list(&connection.answers, answer)
    );
    if connection.is_ended {
        drawn += "   The loader has ended the connection.\n";
    }
    drawn
}
