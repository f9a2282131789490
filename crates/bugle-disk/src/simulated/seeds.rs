//! Which seeds a random test runs: a fixed range, one that failed before, or new ones for as long as one likes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// One seed alone.
const ONE: &str = "BUGLE_SEED";
/// New seeds for so many minutes.
const MINUTES: &str = "BUGLE_POWERCUT_MINUTES";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Run the seeds; one that fails is named. Answers how many there were. `BUGLE_SEED` runs that one alone,
/// `BUGLE_POWERCUT_MINUTES` new ones for so long.
///
/// # Panics
/// If a seed fails, or a variable is no number.
pub fn run_seeds(range: std::ops::Range<u64>, run: impl Fn(u64)) -> u64 {
    let tell = |seed: u64| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("failed with {ONE}={seed}");
            resume_unwind(panic);
        }
    };
    if let Some(seed) = number(ONE) {
        tell(seed);
        return 1;
    }
    let Some(minutes) = number(MINUTES) else {
        range.clone().for_each(tell);
        return range.end - range.start;
    };
    let (end, mut tries) = (Instant::now() + Duration::from_secs(60 * minutes), 0);
    while Instant::now() < end {
        tell(fastrand::u64(..));
        tries += 1;
    }
    tries
}
