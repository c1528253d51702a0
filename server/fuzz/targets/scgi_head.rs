#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cabrank_server::properties::scgi_head(input));
