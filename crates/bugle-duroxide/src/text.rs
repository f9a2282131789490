//! Strings on their way to the database and back.
//!
//! An instance's id, a value or an output may hold U+0000, which PostgreSQL's text cannot; such a string is stored escaped by
//! U+0001. That is one byte, so a name in an index grows to twice its length at most.

use std::borrow::Cow;

use bugle_pg::Escape;

const ESCAPE: Escape = Escape::new('\u{1}');

/// The form to store.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    ESCAPE.kept(text)
}

/// The string that was stored.
pub(crate) fn original(text: String) -> String {
    match ESCAPE.given(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(given) => given,
    }
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
