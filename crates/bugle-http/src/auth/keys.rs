//! Static API keys: the simple alternative to tokens.
//!
//! Only digests are kept and compared, in constant time and always with all of them, so neither the memory nor the time
//! of an answer tells anything about a key.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::AuthError;
use super::roles::{Caller, Permissions, Role};

/// Shortest key.
const MIN_BYTES: usize = 16;
/// Longest name: it is stored with every message.
const MAX_NAME: usize = 255;
/// Every request is compared with all keys.
const MAX_KEYS: usize = 1000;

/// API keys with their names and roles. Default: none.
#[derive(Clone, Default)]
pub struct ApiKeys(Vec<([u8; 32], Caller)>);

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl ApiKeys {
    /// Read entries `name:role:key`, separated by line ends or commas. Lines that begin with `#` are comments.
    pub fn parse(text: &str) -> Result<Self, AuthError> {
        let mut keys: Vec<([u8; 32], Caller)> = Vec::new();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let entries = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
        for (at, entry) in entries.enumerate() {
            let wrong = |what: &str| AuthError::new(format!("api-keys: entry {} {what}", at + 1));
            let mut parts = entry.splitn(3, ':').map(str::trim);
            let (Some(name), Some(role), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(wrong("is not name:role:key"));
            };
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                return Err(wrong("has no usable name"));
            }
            let role = Role::named(role)
                .ok_or_else(|| wrong("has no role out of admin, read-write, write-only and read-only"))?;
            if key.len() < MIN_BYTES {
                return Err(wrong(&format!("has a key of less than {MIN_BYTES} bytes")));
            }
            let hashed = hashed(key.as_bytes());
            if keys.len() == MAX_KEYS || keys.iter().any(|(known, _)| *known == hashed) {
                return Err(wrong("is one too many, or its key was there before"));
            }
            let subject = Some(Bytes::copy_from_slice(name.as_bytes()));
            keys.push((hashed, Caller { subject, permissions: Permissions::default().with(role) }));
        }
        Ok(Self(keys))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key this is.
    pub(crate) fn find(&self, presented: &[u8]) -> Option<&Caller> {
        if self.0.is_empty() {
            return None;
        }
        let presented = hashed(presented);
        let mut found = None;
        // No early end: the time must not tell where in the list a key stands.
        for (known, caller) in &self.0 {
            if verify_slices_are_equal(known, &presented).is_ok() {
                found = Some(caller);
            }
        }
        found
    }
}

fn hashed(key: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, key).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::roles::Level;

    #[test]
    fn keys_are_found_by_their_whole_text_only() {
        let keys = ApiKeys::parse(
            "# ours\nshop:write-only:0123456789abcdef\n\n ops : admin : fedcba:9876543210 , eye:read-only:xxxxxxxxxxxxxxxx\n",
        )
        .unwrap();
        let shop = keys.find(b"0123456789abcdef").unwrap();
        assert_eq!(shop.subject.as_deref(), Some(&b"shop"[..]));
        assert!(shop.permissions.allow(Level::Push) && !shop.permissions.allow(Level::ReadOnly));
        assert!(keys.find(b"fedcba:9876543210").unwrap().permissions.allow(Level::Admin));
        assert!(keys.find(b"xxxxxxxxxxxxxxxx").is_some());
        for wrong in [&b""[..], b"0123456789abcde", b"0123456789abcdef ", b"shop", b"# ours"] {
            assert_eq!(keys.find(wrong), None);
        }
        assert_eq!(ApiKeys::default().find(b""), None);
        assert_eq!(format!("{keys:?}"), "3 keys");
    }

    #[test]
    fn no_key_is_kept_in_the_clear() {
        let keys = ApiKeys::parse("a:admin:0123456789abcdef").unwrap();
        assert_ne!(&keys.0[0].0[..16], b"0123456789abcdef");
        assert_eq!(keys.0[0].0, hashed(b"0123456789abcdef"));
    }

    #[test]
    fn bad_entries_are_refused_without_quoting_them() {
        for (text, complaint) in [
            ("secretsecretsecret", "entry 1 is not name:role:key"),
            ("a:admin", "entry 1 is not name:role:key"),
            ("a:admin:0123456789abcdef\n:admin:secretsecretsecret", "entry 2 has no usable name"),
            ("a:root:secretsecretsecret", "entry 1 has no role"),
            ("a:admin:secret", "entry 1 has a key of less than 16 bytes"),
            ("a:admin:secretsecretsecret,b:admin:secretsecretsecret", "entry 2 is one too many"),
        ] {
            let error = ApiKeys::parse(text).unwrap_err().to_string();
            assert!(error.contains(complaint) && !error.contains("secret"), "{error}");
        }
        assert!(ApiKeys::parse(" \n# nothing\n").unwrap().is_empty());
    }
}
