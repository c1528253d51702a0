//! The decoder over every way in which the bytes of an answer can arrive.

use super::*;

/// The parts of an answer as a client sees them, however its bytes arrived.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    interim: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
    ended: bool,
    aborted: bool,
}

fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[kind], &size[1..], bytes].concat()
}

/// Decodes the pieces as they arrive. Asserts what each step promises.
fn decode(pieces: &[&[u8]]) -> Result<Vec<Answer>, BadFrame> {
    let mut decoder = Decoder::default();
    let mut pending = Vec::new();
    let mut answers = vec![Answer::default()];
    for (i, piece) in pieces.iter().enumerate() {
        pending.extend_from_slice(piece);
        loop {
            let Decoded { consumed, part } = decoder.decode(&pending)?;
            assert!(consumed <= pending.len());
            let answer = answers.last_mut().unwrap();
            match part {
                Part::Incomplete { missing } => {
                    let coming: usize = pieces[i + 1..].iter().map(|p| p.len()).sum();
                    let is_between = decoder.is_at_start() && consumed == pending.len();
                    assert!(missing > 0 && (missing <= coming || is_between || answer.aborted));
                    pending.drain(..consumed);
                    break;
                }
                Part::Interim(head) => answer.interim.extend_from_slice(head),
                Part::Head(head) => answer.head.extend_from_slice(head),
                Part::Body(body) => {
                    assert!(!body.is_empty());
                    answer.body.extend_from_slice(body);
                }
                Part::End => {
                    assert!(decoder.is_at_start());
                    answer.ended = true;
                    answers.push(Answer::default());
                }
                Part::Abort => {
                    answer.aborted = true;
                    pending.clear();
                    return Ok(answers);
                }
            }
            pending.drain(..consumed);
        }
    }
    Ok(answers)
}

const HEAD: &[u8] = b"Status: 200 OK\r\n\r\n";

fn two_answers() -> Vec<u8> {
    let first =
        [frame(b'H', HEAD), frame(b'D', b"one"), frame(b'D', b""), frame(b'D', b" two")].concat();
    let interim = [frame(b'I', b"a"), frame(b'I', b"b")].concat();
    [first, frame(b'E', b""), interim, frame(b'H', b""), frame(b'E', b"")].concat()
}

fn as_expected() -> Vec<Answer> {
    vec![
        Answer { head: HEAD.to_vec(), body: b"one two".to_vec(), ended: true, ..Answer::default() },
        Answer { interim: b"ab".to_vec(), ended: true, ..Answer::default() },
        Answer::default(),
    ]
}

#[test]
fn an_answer_is_the_same_for_every_split_in_three() {
    let bytes = two_answers();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(decode(&pieces), Ok(as_expected()), "cut at {first} and {second}");
        }
    }
}

#[test]
fn an_answer_is_the_same_byte_by_byte() {
    let bytes = two_answers();
    let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&pieces), Ok(as_expected()));
}

#[test]
fn an_answer_that_breaks_off_has_no_end() {
    let bytes = [frame(b'H', HEAD), frame(b'D', b"one"), frame(b'E', b"")].concat();
    for size in 0..bytes.len() {
        let mut decoder = Decoder::default();
        let mut at = 0;
        loop {
            let Decoded { consumed, part } = decoder.decode(&bytes[at..size]).unwrap();
            at += consumed;
            match part {
                Part::Incomplete { .. } => break,
                Part::Interim(_) | Part::Head(_) | Part::Body(_) => {}
                Part::End | Part::Abort => panic!("{size} bytes passed for an answer"),
            }
        }
    }
}

#[test]
fn an_answer_can_be_aborted_at_any_frame() {
    for (before, head) in [(vec![], &b""[..]), (frame(b'H', HEAD), HEAD)] {
        let bytes = [before, frame(b'A', b"")].concat();
        for cut in 0..=bytes.len() {
            let answers = decode(&[&bytes[..cut], &bytes[cut..]]).unwrap();
            assert_eq!(
                answers,
                [Answer { head: head.to_vec(), aborted: true, ..Answer::default() }]
            );
        }
    }
}

#[test]
fn a_breach_of_the_protocol_is_found_at_its_frame() {
    let begun = frame(b'H', HEAD);
    for (before, bad, why) in [
        (&[][..], frame(b'D', b"x"), BadFrame::OutOfPlace(b'D')),
        (&[], frame(b'E', b""), BadFrame::OutOfPlace(b'E')),
        (&begun, frame(b'H', b""), BadFrame::OutOfPlace(b'H')),
        (&begun, frame(b'I', b""), BadFrame::OutOfPlace(b'I')),
        (&[], frame(b'E', b"x"), BadFrame::HasLength(b'E')),
        (&begun, frame(b'A', b"x"), BadFrame::HasLength(b'A')),
        (&[], b"HTTP".to_vec(), BadFrame::LongHead(0x54_54_50)),
        (&[], b"Stat".to_vec(), BadFrame::Unknown(b'S')),
        (&begun, vec![0; 4], BadFrame::Unknown(0)),
    ] {
        assert_eq!(decode(&[before, &bad]), Err(why));
        assert_eq!(decode(&[&[before, &bad].concat()]), Err(why));
        assert!(!why.to_string().is_empty());
    }
}

#[test]
fn the_longest_head_is_accepted() {
    let head = vec![b'x'; MAX_REPLY_HEAD];
    let answers = decode(&[&frame(b'H', &head), b"E\0\0\0"]).unwrap();
    assert_eq!(answers[0].head, head);
    let long = frame(b'H', &vec![b'x'; MAX_REPLY_HEAD + 1]);
    assert_eq!(decode(&[&long]), Err(BadFrame::LongHead(MAX_REPLY_HEAD + 1)));
}

#[test]
fn a_request_has_frames_for_its_body_and_an_end() {
    let mut out = b"head".to_vec();
    push_body(&mut out, b"");
    push_body(&mut out, b"body");
    out.extend_from_slice(&END);
    assert_eq!(out, b"head\0\0\0\x04body\0\0\0\0");
}
