//! The handshake with a loader: it means the same in whichever pieces its bytes arrive.
#![no_main]

#[path = "../server.rs"]
mod server;
#[path = "../../../spawner/src/handshake/answer.rs"]
#[allow(dead_code)] // the target compares answers as a whole
mod answer;
#[path = "../../../spawner/src/handshake/machine.rs"]
#[allow(dead_code)] // the constants for the channel
mod machine;

use server::{config, with_cut};
use answer::Ready;
use machine::{MAX_LINE, Machine, Refusal, Step};

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result<Ready, Refusal>,
    greetings: usize,
    output: Vec<u8>,
}

fn shake_hands(input: &[u8], cut: usize) -> Seen {
    let (mut machine, mut greetings, mut output) = (Machine::new(), 0, Vec::new());
    let mut pieces = [&input[..cut], &input[cut..]].into_iter();
    let result = loop {
        match machine.step() {
            Ok(Step::Greet) => greetings += 1,
            Ok(Step::Output(line)) => {
                assert!(!line.is_empty() && line.len() <= MAX_LINE);
                output.extend(line);
            }
            Ok(Step::Ready(ready)) => {
                assert!(ready.preferred().is_some() || ready.commands.is_some());
                break Ok(ready);
            }
            Err(refusal) => break Err(refusal),
            Ok(Step::Read) => match pieces.next() {
                Some(piece) => machine.push(piece),
                None => {
                    let (refusal, last) = machine.end(Refusal::HungUp);
                    output.extend(last);
                    break Err(refusal);
                }
            },
        }
    };
    Seen { result, greetings, output }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    assert_eq!(shake_hands(input, 0), shake_hands(input, cut));
});
