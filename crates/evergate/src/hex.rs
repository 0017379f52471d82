//! Bytes as people write them down.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 9, 10, 0x7f, 0xff]), "00090a7fff");
    }
}
