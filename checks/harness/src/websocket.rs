//! A WebSocket that expects an echo.

use crate::http::Client;

/// Opens a WebSocket at this path of a client's connection.
pub fn open(client: &mut Client, path: &str) -> Result<(), String> {
    let fields = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        // The example of RFC 6455. The server's answer to this key is below.
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let reply = client.request("GET", path, &fields, b"").map_err(|e| e.to_string())?;
    match (reply.status, reply.header("Sec-WebSocket-Accept")) {
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")) => Ok(()),
        _ => Err(format!("no WebSocket: {}, {:?}", reply.describe(), reply.headers)),
    }
}

/// Sends a text of less than 126 bytes, and expects that it comes back.
pub fn echo(client: &mut Client, text: &[u8]) -> Result<(), String> {
    let (size, mask) = (text.len() as u8, *b"mask");
    let masked = text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let frame: Vec<u8> = [0x81, 0x80 | size].into_iter().chain(mask).chain(masked).collect();
    client.send(&frame).map_err(|e| e.to_string())?;
    client.expect_bytes(&[&[0x81, size], text].concat())
}
