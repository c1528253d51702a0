//! The chunked coding: a body means the same in whichever pieces it arrives.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::chunked::{BadChunk, CHUNK_END, Decoder, END, size_line};
use server::{config, with_cut};

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

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    let whole = decode(&[input]);
    assert_eq!(whole, decode(&[&input[..cut], &input[cut..]]));
    assert_eq!(whole, decode(&input.chunks(1).collect::<Vec<_>>()));

    if input.is_empty() {
        return;
    }
    let mut out = Vec::new();
    size_line(&mut out, input.len());
    out.extend_from_slice(input);
    out.extend_from_slice(CHUNK_END);
    out.extend_from_slice(END);
    assert_eq!(decode(&[&out]), Ok((input.to_vec(), Some(out.len()))));
});
