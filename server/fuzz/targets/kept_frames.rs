//! The frames of a kept session: an answer means the same in whichever pieces it arrives.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::kept::{BadFrame, Decoder, Part};
use server::{config, with_cut};

#[derive(Debug, Default, PartialEq)]
struct Answers {
    heads: Vec<Vec<u8>>,
    body: Vec<u8>,
    ended: usize,
    failed: bool,
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

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    assert_eq!(decode(input, 0), decode(input, cut));
});
