//! The head of the PROXY protocol.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::proxy_protocol::{ProxyHead, proxy_head};
use server::{config, with_cut};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    if let Ok(ProxyHead::Present { size, peer }) = proxy_head(input) {
        assert_eq!(proxy_head(&input[..cut.min(size - 1)]), Ok(ProxyHead::Incomplete));
        assert_eq!(proxy_head(&input[..size]), Ok(ProxyHead::Present { size, peer }));
    }
});
