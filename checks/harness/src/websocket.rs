//! A WebSocket that expects an echo.

use crate::http::Client;
use std::io::{self, Read};

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
    send(client, text)?;
    client.expect_bytes(&[&[0x81, text.len() as u8], text].concat())
}

/// Sends a text of less than 126 bytes.
pub fn send(client: &mut Client, text: &[u8]) -> Result<(), String> {
    let (size, mask) = (text.len() as u8, *b"mask");
    let masked = text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let frame: Vec<u8> = [0x81, 0x80 | size].into_iter().chain(mask).chain(masked).collect();
    client.send(&frame).map_err(|e| e.to_string())
}

/// Reads texts of less than 64 KiB up to one with this part.
pub fn until(client: &mut Client, part: &str) -> Result<(), String> {
    let mut all = Vec::new();
    loop {
        let text = frame(client).map_err(|e| format!("{e} before {part:?}: {all:?}"))?;
        if text.contains(part) {
            return Ok(());
        }
        all.push(text);
    }
}

/// Reads a frame, as text.
fn frame(client: &mut Client) -> io::Result<String> {
    let mut head = [0; 2];
    client.stream.read_exact(&mut head)?;
    let size = match head[1] {
        126 => {
            let mut size = [0; 2];
            client.stream.read_exact(&mut size)?;
            u16::from_be_bytes(size)
        }
        size => size.into(),
    };
    let mut text = vec![0; size.into()];
    client.stream.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
