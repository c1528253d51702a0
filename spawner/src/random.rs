//! Random text from the system's generator, for names and passwords that others must not guess.

/// Returns random letters and digits.
pub(crate) fn characters(count: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(count);
    let mut bytes = [0u8; 64];
    while text.len() < count {
        // Without flags the call waits for the generator at boot, and does not fail for so few bytes.
        let Ok(got) = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        else {
            continue;
        };
        for byte in &bytes[..got] {
            // 248 = 4 · 62: larger bytes would make some characters more frequent than others.
            if *byte < 248 && text.len() < count {
                text.push(ALPHABET[usize::from(byte % 62)] as char);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_requested_length_and_differ() {
        let (a, b) = (characters(43), characters(43));
        assert_eq!((a.len(), b.len()), (43, 43));
        assert!(a != b && a.bytes().all(|c| c.is_ascii_alphanumeric()));
    }
}
