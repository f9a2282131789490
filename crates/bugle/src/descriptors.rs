//! File descriptors: how many this process may have, and how many of them clients' connections may take.
//!
//! A server without descriptors is worse off than one without connections: it cannot open its log files, nor connect to its
//! database. So connections leave a reserve: an eighth of the limit, 256 at least, and never more than half.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LEAST_RESERVE: u64 = 256;

/// Take as many descriptors as the system allows: what is given by default is meant for programs that use `select`. How
/// many there are then; `None` = any number.
pub(crate) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
            current
        }
    }
}

/// Descriptors that connections must leave, out of so many.
pub(crate) fn reserve(limit: u64) -> u64 {
    (limit / 8).max(LEAST_RESERVE).min(limit / 2)
}

/// How many connections there can be if `wanted` are allowed.
pub(crate) fn connections(wanted: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return wanted };
    let most = usize::try_from(limit - reserve(limit)).unwrap_or(usize::MAX).max(1);
    if wanted > most {
        tracing::info!(
            descriptors = limit,
            reserve = reserve(limit),
            connections = most,
            wanted,
            "fewer connections than max-connections: the limit of file descriptors (ulimit -n) does not allow more"
        );
    }
    wanted.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve() {
        for (limit, wanted, expected) in [
            (Some(20_000), 20_000, 17_500),
            (Some(20_000), 100, 100),
            (Some(1024), 20_000, 768),
            (Some(256), 20_000, 128),
            (Some(1), 20_000, 1),
            (Some(1 << 20), 20_000, 20_000),
            (None, 20_000, 20_000),
        ] {
            assert_eq!(connections(wanted, limit), expected, "{limit:?}");
        }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let limit = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!((now.current, limit), (now.maximum, now.maximum));
    }
}
