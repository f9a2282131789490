//! Lock tokens: what was locked, and the secret that only its holder knows.
//!
//! The runtime keeps a token as an opaque string. Ours names the row, so that a call finds it by its primary key and the
//! locks need no index of their own.

use uuid::Uuid;

/// A lock on an instance.
pub(crate) struct InstanceToken<'a> {
    pub(crate) nonce: Uuid,
    pub(crate) instance: &'a str,
}

/// A lock on an activity in the queue.
pub(crate) struct ActivityToken {
    pub(crate) nonce: Uuid,
    pub(crate) id: i64,
}

/// A new secret.
pub(crate) fn nonce() -> Uuid {
    Uuid::from_u128(fastrand::u128(..))
}

impl<'a> InstanceToken<'a> {
    pub(crate) fn text(nonce: Uuid, instance: &str) -> String {
        format!("{}:{instance}", nonce.simple())
    }

    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (nonce, instance) = text.split_once(':')?;
        Some(Self { nonce: Uuid::try_parse(nonce).ok()?, instance })
    }
}

impl ActivityToken {
    pub(crate) fn text(nonce: Uuid, id: i64) -> String {
        format!("{}:{id}", nonce.simple())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (nonce, id) = text.split_once(':')?;
        Some(Self { nonce: Uuid::try_parse(nonce).ok()?, id: id.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_nothing_else_is() {
        let nonce = nonce();
        let text = InstanceToken::text(nonce, "a:b:\0");
        let read = InstanceToken::parse(&text).unwrap();
        assert_eq!((read.nonce, read.instance), (nonce, "a:b:\0"));
        let read = ActivityToken::parse(&ActivityToken::text(nonce, 42)).unwrap();
        assert_eq!((read.nonce, read.id), (nonce, 42));
        for bad in ["", "invalid-token", ":", "x:1", &ActivityToken::text(nonce, 1).replace(":1", ":x")] {
            assert!(ActivityToken::parse(bad).is_none(), "{bad}");
        }
        assert!(InstanceToken::parse("invalid-token").is_none());
    }
}
