//! Strings on their way to the database and back.
//!
//! PostgreSQL's text cannot hold U+0000, but an instance's id, a value or an output may. Such a string is stored with an
//! escape character, U+0001, in front of a `0`; a U+0001 of the string's own is stored as itself and a `1`. All other
//! strings are stored as they are.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// The form to store.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => out.extend([ESCAPE, '0']),
            ESCAPE => out.extend([ESCAPE, '1']),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// The string that was stored.
pub(crate) fn original(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == ESCAPE) {
            (_, true) => out.push(if chars.next() == Some('0') { '\0' } else { ESCAPE }),
            (other, false) => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_comes_back_and_plain_ones_are_stored_as_they_are() {
        for text in ["", "plain", "ünï\n\t\"", "a\0b", "\0", "\u{1}", "\u{1}0", "\0\u{1}1\0", "x\u{1}\0"] {
            let stored = stored(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(original(stored.into_owned()), text);
        }
        assert!(matches!(stored("plain"), Cow::Borrowed(_)));
    }
}
