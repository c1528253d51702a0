//! Table tests of the ends of an exchange.
//!
//! Each row names a cause and a state of the answer, and what follows: the client's bytes, and the fate of session and
//! connection. `cargo test -p cabrank-server each_end -- --nocapture` prints the table.
//!
//! A row is played for each protocol that it names, with an answer of a known length and with one of an unknown length. Each
//! play is repeated with a client that has ended its output (half-close).

mod cases;
mod held;
mod play;
mod rows;

use crate::exchange::played::within_a_play;
use crate::observe::record::tests::{Facts, READ};
use play::play;
use rows::{Got, ROWS, Row};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The number of failures after which the rest is not played: each may take until the deadline.
const MAX_FAILURES: usize = 5;

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
                    if half_closes && !row.cause.allows_half_close(row.state) {
                        continue;
                    }
                    if failures.len() == MAX_FAILURES {
                        continue;
                    }
                    played += 1;
                    let variant = format!(
                        "{:?} {:?} {lane:?} {framing:?} half-closed: {half_closes}",
                        row.cause, row.state
                    );
                    READ.take();
                    let wrong = match or_panic(within_a_play(play(row, lane, framing, half_closes)))
                        .await
                    {
                        Err(panic) => Some(panic),
                        // A connection that stays has had another request.
                        Ok(Ok(())) => READ.with_borrow(|read| wrong_record(row, read.first())),
                        Ok(Err(wrong)) => Some(wrong),
                    };
                    failures.extend(wrong.map(|wrong| format!("{variant}: {wrong}")));
                }
            }
        }
    }
    println!("{} rows, played {played} times", ROWS.len());
    assert!(failures.is_empty(), "{} of {played}:\n{}", failures.len(), failures.join("\n"));
}

/// Returns what is wrong with the record of a row.
fn wrong_record(row: &Row, record: Option<&Facts>) -> Option<String> {
    let Some(facts) = record else { return Some("there is no record".into()) };
    let status = match row.got {
        Got::Nothing => 0,
        Got::Page(status) => status,
        Got::Switch => 101,
        Got::Head | Got::Part | Got::Whole => 200,
    };
    let is_so = facts.end == row.end && facts.status == status && (facts.sent > 0) == (status > 0);
    (!is_so).then(|| format!("the record is {facts:?}"))
}

/// Returns the outcome, or the text of a panic, so that the other rows are played, too.
async fn or_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("a panic".into(), |text| (*text).into()),
    };
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(text(panic))),
    })
    .await
}
