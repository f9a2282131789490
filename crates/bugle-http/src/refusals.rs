//! How many answers were errors, by status. Counted for the process: an error does not know which router it is made for.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// Statuses counted one by one; what a scraper keeps must have a bound.
const STATUSES: [u16; 13] = [400, 401, 403, 404, 405, 408, 409, 411, 413, 415, 429, 500, 503];

static COUNTS: [AtomicU64; STATUSES.len()] = [const { AtomicU64::new(0) }; STATUSES.len()];
static OTHERS: AtomicU64 = AtomicU64::new(0);

/// One more.
pub(crate) fn count(status: StatusCode) {
    let place = STATUSES.iter().position(|known| *known == status.as_u16());
    place.map_or(&OTHERS, |place| &COUNTS[place]).fetch_add(1, Ordering::Relaxed);
}

/// All counts, each with what to call it.
pub(crate) fn read() -> impl Iterator<Item = (Cow<'static, str>, u64)> {
    let counted = STATUSES.iter().zip(&COUNTS);
    let counted =
        counted.map(|(status, count)| (Cow::from(status.to_string()), count.load(Ordering::Relaxed)));
    counted.chain([(Cow::from("other"), OTHERS.load(Ordering::Relaxed))])
}
