//! The trace that a message belongs to: a W3C trace context (`traceparent`, `tracestate`), as it is read, kept and spelled.
//!
//! A context is kept as it came: the broker hands it on and is no hop of its own. What is not valid by the rules of the
//! recommendation (Trace Context, level 1, sections 3.2 and 3.3) is no context.

use std::fmt;

use bytes::Bytes;

/// Most bytes of a `tracestate` that are kept; the recommendation's least.
const STATE_MAX: usize = 512;
/// Most members of a `tracestate`; with more it is invalid.
const STATE_MEMBERS: usize = 32;
/// Members longer than this go first when a `tracestate` is too long.
const MEMBER_LONG: usize = 128;
/// The flags that this version of the recommendation and the next give a meaning.
const KNOWN_FLAGS: u8 = 3;
const SAMPLED: u8 = 1;

/// A W3C trace context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span in it that the message or request is a child of.
    pub parent_id: [u8; 8],
    /// `trace-flags`.
    pub flags: u8,
    /// `tracestate`, if there is one.
    pub state: Option<Bytes>,
}

impl TraceContext {
    /// Length of [`TraceContext::text`].
    pub const TEXT_LEN: usize = 55;

    /// Read a `traceparent`. `None` if it is not valid.
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let version = hex_byte(traceparent.get(..2)?)?;
        let dashes = [2, 35, 52].iter().all(|at| traceparent.get(*at) == Some(&b'-'));
        let whole = match version {
            0 => traceparent.len() == Self::TEXT_LEN,
            0xff => false,
            // A later version may have more behind another dash.
            _ => traceparent.len() == Self::TEXT_LEN || traceparent.get(Self::TEXT_LEN) == Some(&b'-'),
        };
        if !dashes || !whole {
            return None;
        }
        let (mut trace_id, mut parent_id) = ([0; 16], [0; 8]);
        hex_bytes(&traceparent[3..35], &mut trace_id)?;
        hex_bytes(&traceparent[36..52], &mut parent_id)?;
        let flags = hex_byte(&traceparent[53..55])?;
        let flags = if version == 0 { flags } else { flags & KNOWN_FLAGS };
        let known = trace_id != [0; 16] && parent_id != [0; 8];
        known.then_some(Self { trace_id, parent_id, flags, state: None })
    }

    /// Read a `tracestate`, and shorten one that is too long by whole members. `None` if it is empty or not valid.
    pub fn parse_state(tracestate: &str) -> Option<Bytes> {
        let members = tracestate.split(',').map(|member| member.trim_matches([' ', '\t']));
        let mut members: Vec<&str> = members.filter(|member| !member.is_empty()).collect();
        if members.is_empty() || members.len() > STATE_MEMBERS || !members.iter().all(|m| is_member(m)) {
            return None;
        }
        let length = |members: &[&str]| members.iter().map(|m| m.len() + 1).sum::<usize>() - 1;
        while members.len() > 1 && length(&members) > STATE_MAX {
            let longest = members.iter().rposition(|member| member.len() > MEMBER_LONG);
            members.remove(longest.unwrap_or(members.len() - 1));
        }
        let fits = length(&members) <= STATE_MAX;
        fits.then(|| members.join(",").into())
    }

    /// Whether the caller records this trace.
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// As a `traceparent`.
    pub fn text(&self) -> String {
        self.to_string()
    }

    /// Its `tracestate`.
    pub fn state_text(&self) -> Option<&str> {
        self.state.as_deref().and_then(|state| std::str::from_utf8(state).ok())
    }

    /// A copy that keeps no other memory alive.
    pub(crate) fn detached(&self) -> Self {
        Self { state: self.state.as_deref().map(Bytes::copy_from_slice), ..*self }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, parent) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.parent_id));
        write!(f, "00-{trace:032x}-{parent:016x}-{:02x}", self.flags)
    }
}

/// Lower case only, as the recommendation wants it.
fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    Some(hex_digit(*digits.first()?)? << 4 | hex_digit(*digits.get(1)?)?)
}

fn hex_bytes(digits: &[u8], out: &mut [u8]) -> Option<()> {
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_byte(pair)?;
    }
    Some(())
}

/// `key=value`; a key may be `tenant@system`.
fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let printable = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    let values = (1..=256).contains(&value.len()) && value.bytes().all(printable);
    let part = |text: &str, most: usize, digit_first: bool| {
        let first = text.bytes().next();
        let begins = first.is_some_and(|b| b.is_ascii_lowercase() || digit_first && b.is_ascii_digit());
        let all = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b);
        begins && text.len() <= most && text.bytes().all(all)
    };
    let keys = match key.split_once('@') {
        Some((tenant, system)) => part(tenant, 241, true) && part(system, 14, false),
        None => part(key, 256, true),
    };
    keys && values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_spelled_as_it_came() {
        let context = TraceContext::parse(VALID.as_bytes()).unwrap();
        assert_eq!((context.trace_id[0], context.parent_id[7], context.flags), (0x4b, 0xb7, 1));
        assert!(context.sampled());
        assert_eq!(context.text(), VALID);
        let other = VALID.replace("-01", "-fe");
        let context = TraceContext::parse(other.as_bytes()).unwrap();
        assert!(!context.sampled());
        assert_eq!(context.text(), other);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for later in ["cc", "01"] {
            for end in ["", "-more"] {
                let text = VALID.replacen("00", later, 1).replace("-01", "-ff") + end;
                let context = TraceContext::parse(text.as_bytes()).unwrap();
                assert_eq!(context.text(), VALID.replace("-01", "-03"), "{text}");
            }
        }
        assert_eq!(TraceContext::parse(format!("cc{}x", &VALID[2..]).as_bytes()), None);
    }

    #[test]
    fn what_is_not_valid_is_no_context() {
        for bad in [
            "",
            "0",
            &VALID[..54],
            &format!("{VALID}-"),
            &format!("{VALID}-more"),
            &VALID.to_uppercase(),
            &VALID.replacen("00", "ff", 1),
            &VALID.replacen("00", "0g", 1),
            &VALID.replace('-', "_"),
            &VALID.replace("4bf9", "4bfx"),
            &VALID.replace("-01", "-0x"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            &format!(" {VALID}"),
            &format!("{VALID} "),
        ] {
            assert_eq!(TraceContext::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_state_is_a_list_of_members() {
        let read = |text: &str| TraceContext::parse_state(text).map(|b| String::from_utf8(b.into()).unwrap());
        assert_eq!(read("a=1").as_deref(), Some("a=1"));
        assert_eq!(read(" a=1 ,\t,b@c=x y!").as_deref(), Some("a=1,b@c=x y!"));
        assert_eq!(read("0a_-*/=;").as_deref(), Some("0a_-*/=;"));
        let many = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
        assert!(read(&many(32)).is_some());
        let long = "v".repeat(257);
        for bad in [
            "",
            " , ",
            "a",
            "=1",
            "a=",
            "A=1",
            "a=b=c",
            "a=é",
            "a@=1",
            "a@1=1",
            "@a=1",
            &many(33),
            &format!("a={long}"),
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_loses_whole_members_the_long_ones_first() {
        let (long, short) = ("x".repeat(200), "y".repeat(100));
        let text = format!("a={long},b={short},c={long},d={short},e={long}");
        let kept = TraceContext::parse_state(&text).unwrap();
        assert_eq!(kept, format!("a={long},b={short},d={short}"));
        let text = (0..6).map(|i| format!("k{i}={short}")).collect::<Vec<_>>().join(",");
        let kept = TraceContext::parse_state(&text).unwrap();
        assert_eq!(kept, text[..4 * 104 - 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_context_survives_and_no_text_panics(trace in 1u128.., parent in 1u64.., flags: u8, text in ".{0,80}") {
            let context = TraceContext {
                trace_id: trace.to_be_bytes(), parent_id: parent.to_be_bytes(), flags, state: None,
            };
            prop_assert_eq!(TraceContext::parse(context.text().as_bytes()), Some(context));
            let _ = TraceContext::parse(text.as_bytes());
            if let Some(state) = TraceContext::parse_state(&text) {
                prop_assert!(state.len() <= STATE_MAX);
            }
        }
    }
}
