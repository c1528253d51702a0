//! Properties of the parsers that hold for all bytes, which the fuzz targets search for counterexamples.
//!
//! Each function panics if its property does not hold. `server/fuzz` has a target for each.

use crate::handshake::{MAX_LINE, Machine, Ready, Refusal, Step};
use crate::kept::{BadFrame, Decoder, Part};

/// Returns the input without its first byte, and a place in the rest that the first byte determines.
fn with_cut(input: &[u8]) -> Option<(&[u8], usize)> {
    let (first, rest) = input.split_first()?;
    Some((rest, usize::from(*first) * rest.len() / 256))
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result<Ready, Refusal>,
    greetings: usize,
    output: Vec<u8>,
}

/// The handshake with a loader: it means the same in whichever pieces its bytes arrive.
pub fn handshake(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    assert_eq!(shake_hands(input, 0), shake_hands(input, cut));
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

#[derive(Debug, Default, PartialEq)]
struct Answers {
    heads: Vec<Vec<u8>>,
    body: Vec<u8>,
    ended: usize,
    failed: bool,
}

/// The frames of a kept session: an answer means the same in whichever pieces it arrives.
pub fn kept_frames(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    assert_eq!(decode(input, 0), decode(input, cut));
}

/// Decodes bytes of which first `cut` have arrived, and then all.
fn decode(input: &[u8], cut: usize) -> Result<Answers, BadFrame> {
    let (mut decoder, mut answers, mut at) = (Decoder::default(), Answers::default(), 0);
    for arrived in [&input[..cut], input] {
        loop {
            let decoded = decoder.decode(&arrived[at..])?;
            at += decoded.consumed;
            assert!(at <= arrived.len());
            match decoded.part {
                Part::Incomplete { missing } => {
                    assert!(missing > 0);
                    break;
                }
                Part::Interim(head) | Part::Head(head) => answers.heads.push(head.to_vec()),
                Part::Body(data) => {
                    assert!(!data.is_empty() && decoded.consumed > 0);
                    answers.body.extend_from_slice(data);
                }
                Part::End => answers.ended += 1,
                Part::Abort => {
                    answers.failed = true;
                    return Ok(answers);
                }
            }
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: [&[u8]; 4] = [
        b"!> I have control 1.0\n!> Ready\n!> socket: main;unix:/tmp/a;session;1\n!> pid: 3\n!> \n",
        b"hello\n!> I have control 1.0\n!> Error\n!> html: true\n!> \nbroken\nlast",
        b"\0\0\0\x0aHStatus: 200\r\n\r\n\0\0\0\x03Babc\0\0\0\0E",
        b"\0\0\0\x03I103\0\0\0\0A",
    ];

    #[test]
    fn the_properties_hold_for_parts_of_a_few_inputs() {
        for input in INPUTS {
            for end in 0..=input.len() {
                for cut in [0, 77, 255] {
                    let input = [&[cut], &input[..end]].concat();
                    handshake(&input);
                    kept_frames(&input);
                }
            }
        }
    }
}
