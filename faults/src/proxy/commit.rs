//! Recognises, in what a client of PostgreSQL sends, that something is committed: `COMMIT`, or the end of a statement that
//! stands alone.

/// Follows one connection from its beginning.
#[derive(Default)]
pub(super) struct Commits {
    unread: Vec<u8>,
    started: bool,
    in_transaction: bool,
    executed: bool,
}

impl Commits {
    /// Whether these bytes complete a message that commits.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        self.unread.extend_from_slice(bytes);
        let mut commits = false;
        while let Some(length) = self.message() {
            let message: Vec<u8> = self.unread.drain(..length).collect();
            if self.started {
                commits |= self.commits(message[0], &message[5..]);
            }
            self.started = true;
        }
        commits
    }

    /// The length of the message that is there wholly: the first has no letter in front.
    fn message(&self) -> Option<usize> {
        let letter = usize::from(self.started);
        let length = self.unread.get(letter..letter + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize + letter;
        (length >= letter + 4 && self.unread.len() >= length).then_some(length)
    }

    fn commits(&mut self, letter: u8, body: &[u8]) -> bool {
        match letter {
            b'Q' => {
                let text = String::from_utf8_lossy(body).to_ascii_uppercase();
                if text.starts_with("BEGIN") {
                    self.in_transaction = true;
                } else if text.starts_with("COMMIT") || text.starts_with("ROLLBACK") {
                    self.in_transaction = false;
                    return text.starts_with("COMMIT");
                }
                false
            }
            b'E' => {
                self.executed = true;
                false
            }
            b'S' => std::mem::take(&mut self.executed) && !self.in_transaction,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[letter][..], &length, body].concat()
    }

    fn start() -> Vec<u8> {
        message(0, b"\0\x03\0\0user\0x\0\0")[1..].to_vec()
    }

    #[test]
    fn commits_are_recognised_wherever_the_bytes_are_torn() {
        let before = [start(), message(b'Q', b"BEGIN\0"), message(b'B', b"p"), message(b'E', b"")].concat();
        let inside = [message(b'S', b""), message(b'Q', b"COMMIT")].concat();
        let all = [before, inside].concat();
        for at in 0..all.len() {
            let mut commits = Commits::default();
            assert!(!commits.read(&all[..at]), "{at}");
            assert!(commits.read(&all[at..]), "{at}");
        }
    }

    #[test]
    fn a_statement_alone_commits_at_its_end_and_one_that_is_only_prepared_does_not() {
        let mut commits = Commits::default();
        let prepared = [start(), message(b'P', b"SELECT"), message(b'S', b"")].concat();
        assert!(!commits.read(&prepared));
        assert!(!commits.read(&message(b'E', b"")));
        assert!(commits.read(&message(b'S', b"")));
        assert!(!commits.read(&[message(b'Q', b"BEGIN"), message(b'E', b""), message(b'S', b"")].concat()));
        assert!(!commits.read(&message(b'Q', b"ROLLBACK")));
    }
}
