//! Any text in a `text` column. PostgreSQL's cannot hold U+0000, but what comes from clients may.

use std::borrow::Cow;

/// How U+0000 is kept: this character followed by `0` stands for it, and this character twice for itself. All other text
/// is kept as it is. Who keeps data with one character must go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escape(char);

impl Escape {
    /// Escape with this character, not U+0000 or `0`.
    pub const fn new(character: char) -> Self {
        Self(character)
    }

    /// Text as it is kept.
    pub fn kept(self, text: &str) -> Cow<'_, str> {
        if !text.contains(['\0', self.0]) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match c {
                '\0' => out.extend([self.0, '0']),
                c if c == self.0 => out.extend([c, c]),
                c => out.push(c),
            }
        }
        Cow::Owned(out)
    }

    /// Text as it was given.
    pub fn given(self, kept: &str) -> Cow<'_, str> {
        if !kept.contains(self.0) {
            return Cow::Borrowed(kept);
        }
        let mut out = String::with_capacity(kept.len());
        let mut chars = kept.chars();
        while let Some(c) = chars.next() {
            match c {
                c if c == self.0 => out.push(if chars.next() == Some('0') { '\0' } else { c }),
                c => out.push(c),
            }
        }
        Cow::Owned(out)
    }
}
