//! JSON strings written by hand into buffers, for the answers too hot for a serializer.

/// Append `text` as a JSON string.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut clean = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean..at]);
        clean = at + 1;
        escape(out, byte);
    }
    out.extend_from_slice(&bytes[clean..]);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let all: String = (0u8..128).map(char::from).chain("é漢🎺\u{2028}".chars()).collect();
        for text in ["", "plain", "\"", "a\\", "\u{0}x\u{1f}", &all] {
            let mut out = Vec::new();
            write_text(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
