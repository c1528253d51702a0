//! An application's reply: a client reads one reply, and the same one.

use super::with_cut;
use crate::client::http1::encode::{ConnectionField, reply_head};
use crate::lane::reply_head::{MAX_REPLY_FIELDS, ReplyFraming, ReplyHead};
use crate::request::chunked::{self as coding, BadChunk, Decoder};
use crate::request::head::AnswerTo;
use cabrank_spawner::kept::MAX_REPLY_HEAD;

type Parse = fn(&mut ReplyHead, &[u8], AnswerTo) -> Result<Option<usize>, String>;

/// The head of a reply in the session protocols.
pub fn cgi_reply(input: &[u8]) {
    let Some((head, to)) = whole(input, ReplyHead::parse_cgi) else { return };
    assert!(head.status() >= 200 && head.framing() != ReplyFraming::Chunked);
    let framing = match head.framing() {
        ReplyFraming::UntilClose => ReplyFraming::Chunked,
        framing => framing,
    };
    let Some(again) = sent(&head, framing, ConnectionField::Close, to) else { return };
    assert!(again.closes());
}

/// The head of a reply in HTTP.
pub fn http_reply(input: &[u8]) {
    let Some((head, to)) = whole(input, ReplyHead::parse_http) else { return };
    let framing = head.framing();
    let Some(again) = sent(&head, framing, ConnectionField::Absent, to) else { return };
    assert!(framing == ReplyFraming::UntilClose || !again.closes());
}

/// Parses a head at once and in two parts, with the same result.
fn whole(input: &[u8], parse: Parse) -> Option<(ReplyHead, AnswerTo)> {
    let (input, cut) = with_cut(input)?;
    let to = if cut % 2 == 0 { AnswerTo::Other } else { AnswerTo::Head };
    let mut head = ReplyHead::default();
    let Ok(Some(size)) = parse(&mut head, input, to) else { return None };
    let mut again = ReplyHead::default();
    assert_eq!(parse(&mut again, &input[..cut.min(size - 1)], to), Ok(None));
    assert_eq!(parse(&mut again, input, to), Ok(Some(size)));
    assert_eq!((&again.bytes, again.fields.len()), (&head.bytes, head.fields.len()));
    Some((head, to))
}

/// Returns what the client reads. `None`: the server's own fields exceed its own limits.
fn sent(
    head: &ReplyHead,
    framing: ReplyFraming,
    connection: ConnectionField,
    to: AnswerTo,
) -> Option<ReplyHead> {
    let mut out = Vec::new();
    reply_head(&mut out, head, framing, connection);
    let mut again = ReplyHead::default();
    let Ok(read) = again.parse_http(&out, to) else {
        assert!(
            head.fields.len() + 4 > MAX_REPLY_FIELDS || head.bytes.len() + 200 > MAX_REPLY_HEAD
        );
        return None;
    };
    assert_eq!(read, Some(out.len()), "another reply is hidden in this one");
    assert_eq!((again.status(), again.framing()), (head.status(), framing));
    Some(again)
}

/// The chunked coding: a body means the same in whichever pieces it arrives.
pub fn chunked(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    let whole = decode(&[input]);
    assert_eq!(whole, decode(&[&input[..cut], &input[cut..]]));
    assert_eq!(whole, decode(&input.chunks(1).collect::<Vec<_>>()));
    if input.is_empty() {
        return;
    }
    let mut out = Vec::new();
    coding::push(&mut out, input);
    out.extend_from_slice(coding::END);
    assert_eq!(decode(&[&out]), Ok((input.to_vec(), Some(out.len()))));
}

/// Decodes the pieces. Returns the data, and the number of bytes of the body if it is complete.
fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<usize>), BadChunk> {
    let (mut decoder, mut data, mut total) = (Decoder::default(), Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let decoded = decoder.decode(rest)?;
            assert!(decoded.data.end <= decoded.consumed && decoded.consumed <= rest.len());
            data.extend_from_slice(&rest[decoded.data]);
            total += decoded.consumed;
            if decoded.is_end {
                return Ok((data, Some(total)));
            }
            assert!(decoded.consumed > 0, "no progress");
            rest = &rest[decoded.consumed..];
        }
    }
    Ok((data, None))
}
