//! Transaction ids shaped like UUIDv7: ascending in time as real producers make them, because servers use that.

use std::time::{SystemTime, UNIX_EPOCH};

/// Hands out ascending time stamps; one per connection.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    last: u64,
}

impl Stamps {
    /// Reserves `count` stamps and returns the first. One clock reading per request, not per message.
    pub(crate) fn reserve(&mut self, count: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let fraction = u64::from(now.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
        let first = ((millis << 12) | fraction).max(self.last + 1);
        self.last = first + count;
        first
    }
}

/// Writes a UUID of version 7: 48 bits of milliseconds and 12 of their fraction from `stamp`, then 62 bits of `tail`.
pub(crate) fn write_uuid(out: &mut Vec<u8>, stamp: u64, tail: u64) {
    let time = (stamp >> 12) << 16 | 0x7000 | (stamp & 0xfff);
    let rest = tail & (u64::MAX >> 2) | 1 << 63;
    write_hex(out, time >> 32, 8);
    out.push(b'-');
    write_hex(out, time >> 16, 4);
    out.push(b'-');
    write_hex(out, time, 4);
    out.push(b'-');
    write_hex(out, rest >> 48, 4);
    out.push(b'-');
    write_hex(out, rest, 12);
}

/// Writes the lowest `digits` hexadecimal digits of `value`.
pub(crate) fn write_hex(out: &mut Vec<u8>, value: u64, digits: u32) {
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (digit * 4)) as usize & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_version_7_and_ascend() {
        let mut stamps = Stamps::default();
        let first = stamps.reserve(5000);
        let ids: Vec<String> = (0..5000)
            .map(|i| {
                let mut out = Vec::new();
                write_uuid(&mut out, first + i, u64::MAX - i);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        for id in &ids {
            assert_eq!(id.len(), 36);
            assert_eq!(&id[14..15], "7");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
        assert!(stamps.reserve(1) >= first + 5000);
    }
}
