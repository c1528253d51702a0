//! The head of an application's reply in the session protocols: a client reads one reply.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::encode::{ConnectionField, reply_head};
use server::reply_head::{ReplyFraming, ReplyHead};
use server::request_head::AnswerTo;
use server::{are_same_replies, config, is_nearly_too_large, with_cut};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    let to = if cut % 2 == 0 { AnswerTo::Other } else { AnswerTo::Head };
    let mut head = ReplyHead::default();
    let Ok(Some(size)) = head.parse_cgi(input, to) else { return };
    assert!(head.status() >= 200 && head.framing() != ReplyFraming::Chunked);

    let mut again = ReplyHead::default();
    let cut = cut.min(size - 1);
    assert_eq!(again.parse_cgi(&input[..cut], to), Ok(None));
    assert_eq!(again.parse_cgi(input, to), Ok(Some(size)));
    assert!(are_same_replies(&again, &head));

    let framing = match head.framing() {
        ReplyFraming::UntilClose => ReplyFraming::Chunked,
        framing => framing,
    };
    let mut out = Vec::new();
    reply_head(&mut out, &head, framing, ConnectionField::Close);
    again.clear();
    if let Ok(read) = again.parse_http(&out, to) {
        assert_eq!(read, Some(out.len()), "another reply is hidden in this one");
        assert_eq!((again.status(), again.framing()), (head.status(), framing));
        assert!(again.closes());
    } else {
        assert!(is_nearly_too_large(&head));
    }
});
