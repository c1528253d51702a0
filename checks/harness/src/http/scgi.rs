//! SCGI, as a web server speaks it to the server under test.

/// Returns a head: `CONTENT_LENGTH`, the variables, and `SCGI`.
pub fn scgi_head<'a>(
    length: usize,
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<u8> {
    let mut block = format!("CONTENT_LENGTH\0{length}\0");
    for (name, value) in [("SCGI", "1")].into_iter().chain(variables) {
        block += &format!("{name}\0{value}\0");
    }
    format!("{}:{block},", block.len()).into_bytes()
}
