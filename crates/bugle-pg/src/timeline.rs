//! Which history of the database answers.
//!
//! After a failover or a restore the database goes on from a moment that may lie before what was last seen of it: what was
//! learned since is of a history that is gone. PostgreSQL numbers its histories ("timelines"); a server asks for the number
//! when it connects and now and then along with a transaction, and counts the changes. Whoever keeps anything in memory
//! compares the count, see [`crate::Pool::timeline`].
//!
//! A crash loses what was committed without waiting for the disk and may have been seen ([`crate::Conn::transaction_early`]), and
//! goes on on the same timeline. The server throws its statistics away then, and only then, and tells when that was. A crash
//! ends all connections, so it is known before anything is sent to the server that came back.
//!
//! A server that was replaced may still run and answer, cut off from the others. So a timeline below one that was seen is
//! refused, for as long as this process lives.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_postgres::Row;

/// Asks for the time, and who answers. The functions are PostgreSQL's own; where they are missing only the time is asked for.
pub(crate) const IDENTITY: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
     pg_is_in_recovery(), \
     (SELECT system_identifier FROM pg_control_system()), \
     CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_walfile_name(pg_current_wal_flush_lsn()) END, \
     CASE WHEN pg_is_in_recovery() THEN NULL ELSE (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint END, \
     (SELECT (extract(epoch FROM stats_reset) * 1000000)::bigint FROM pg_stat_get_archiver())";

/// Asks for the time alone.
pub(crate) const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// A place in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Tells clusters apart; copies of one have the same.
    pub(crate) system: i64,
    pub(crate) timeline: u32,
    /// How far its log is safe on disk.
    pub(crate) flushed: i64,
    /// When it last came back from a crash, in its own time.
    pub(crate) crashed: Option<i64>,
}

/// What a server told of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its time, in microseconds since the Unix epoch.
    pub(crate) micros: i64,
    /// `None`: it cannot tell, or follows another server and takes no writes.
    pub(crate) place: Option<Place>,
    /// It takes no writes.
    pub(crate) standby: bool,
}

impl Identity {
    /// From the answer to [`IDENTITY`] or [`TIME`].
    pub(crate) fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let micros = row.try_get(0)?;
        if row.len() == 1 {
            return Ok(Self { micros, place: None, standby: false });
        }
        let file: Option<String> = row.try_get(3)?;
        let timeline = file.as_deref().and_then(|f| f.get(..8)).and_then(|t| u32::from_str_radix(t, 16).ok());
        let place = match (timeline, row.try_get(4)?) {
            (Some(timeline), Some(flushed)) => {
                Some(Place { system: row.try_get(2)?, timeline, flushed, crashed: row.try_get(5)? })
            }
            _ => None,
        };
        Ok(Self { micros, place, standby: row.try_get(1)? })
    }
}

/// How a place that was told stands to the one known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The same history, further on.
    Same,
    /// Another one, which goes on from now on.
    Another,
    /// One that was left.
    Gone,
}

/// `before` is what was known when the question was sent: nothing less may be answered by the same history.
fn relation(known: Option<Place>, before: Option<Place>, told: Place) -> Relation {
    let Some(known) = known else { return Relation::Same };
    if told.system != known.system || told.timeline > known.timeline {
        return Relation::Another;
    }
    if told.timeline < known.timeline {
        return Relation::Gone;
    }
    let same = before.filter(|b| b.system == told.system && b.timeline == told.timeline);
    if told.crashed != known.crashed {
        // Unless the answer was on its way when the crash became known.
        let overtaken = same.is_some_and(|before| before.crashed == told.crashed);
        return if overtaken { Relation::Same } else { Relation::Another };
    }
    // The number is the same, but the log ends before what was already safe: a copy of earlier days was put in its place.
    if same.is_some_and(|before| told.flushed < before.flushed) { Relation::Another } else { Relation::Same }
}

/// What is known of the database's histories.
#[derive(Debug)]
pub(crate) struct Timelines {
    known: Mutex<Option<Place>>,
    count: AtomicU64,
    changes: watch::Sender<u64>,
}

impl Default for Timelines {
    fn default() -> Self {
        Self { known: Mutex::default(), count: AtomicU64::new(0), changes: watch::Sender::new(0) }
    }
}

/// What a place that was told means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// Nothing new; the count.
    Same(u64),
    /// The database goes on elsewhere; the new count.
    Another(u64),
    /// It is of the timeline of the first number, but the second was seen.
    Gone(u32, u32),
}

impl Timelines {
    /// How often the history has changed.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Tells when it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What is known now, to be kept with a question.
    pub(crate) fn known(&self) -> Option<Place> {
        *self.known.lock()
    }

    /// Take note of what was told.
    pub(crate) fn note(&self, before: Option<Place>, identity: &Identity) -> Noted {
        let Some(told) = identity.place else { return Noted::Same(self.count()) };
        let mut known = self.known.lock();
        let relation = relation(*known, before, told);
        if let (Relation::Gone, Some(known)) = (relation, *known) {
            return Noted::Gone(told.timeline, known.timeline);
        }
        if relation == Relation::Another {
            let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
            let before = known.filter(|k| k.system == told.system).map(|k| k.timeline);
            if before == Some(told.timeline) && known.is_some_and(|k| k.crashed != told.crashed) {
                tracing::warn!("the database came back from a crash: what was remembered of it is forgotten");
            } else {
                tracing::warn!(
                    timeline = told.timeline,
                    before = known.map(|k| k.timeline),
                    "the database goes on on another timeline: what was remembered of it is forgotten"
                );
            }
            *known = Some(told);
            drop(known);
            self.changes.send_replace(count);
            return Noted::Another(count);
        }
        let flushed =
            known.filter(|k| k.timeline == told.timeline).map_or(0, |k| k.flushed).max(told.flushed);
        let crashed = known.map_or(told.crashed, |k| k.crashed);
        *known = Some(Place { flushed, crashed, ..told });
        Noted::Same(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(system: i64, timeline: u32, flushed: i64) -> Identity {
        let place = Some(Place { system, timeline, flushed, crashed: None });
        Identity { micros: 0, place, standby: false }
    }

    /// A server on timeline 1 that came back from a crash.
    fn crashed(flushed: i64, at: i64) -> Identity {
        let place = Some(Place { system: 7, timeline: 1, flushed, crashed: Some(at) });
        Identity { micros: 0, place, standby: false }
    }

    /// Note a place that was asked for with all that is known now.
    fn note(timelines: &Timelines, identity: &Identity) -> Noted {
        timelines.note(timelines.known(), identity)
    }

    #[test]
    fn a_history_goes_on_until_another_one_does() {
        let timelines = Timelines::default();
        assert_eq!(note(&timelines, &told(7, 1, 100)), Noted::Same(0));
        assert_eq!(note(&timelines, &told(7, 1, 200)), Noted::Same(0));
        assert_eq!(note(&timelines, &told(7, 2, 150)), Noted::Another(1), "a standby took over");
        assert_eq!(note(&timelines, &told(7, 2, 160)), Noted::Same(1));
        assert_eq!(note(&timelines, &told(8, 1, 10)), Noted::Another(2), "restored into another cluster");
        assert_eq!(*timelines.watch().borrow(), 2);
    }

    #[test]
    fn who_was_replaced_is_refused() {
        let timelines = Timelines::default();
        note(&timelines, &told(7, 3, 100));
        assert_eq!(note(&timelines, &told(7, 2, 900)), Noted::Gone(2, 3));
        assert_eq!(note(&timelines, &told(7, 3, 101)), Noted::Same(0));
    }

    #[test]
    fn a_log_that_ends_before_what_was_safe_is_another_history() {
        let timelines = Timelines::default();
        note(&timelines, &told(7, 1, 500));
        assert_eq!(note(&timelines, &told(7, 1, 400)), Noted::Another(1));
        assert_eq!(note(&timelines, &told(7, 1, 450)), Noted::Same(1));
    }

    #[test]
    fn an_answer_that_was_overtaken_is_no_other_history() {
        let timelines = Timelines::default();
        let before = timelines.known();
        note(&timelines, &told(7, 1, 500));
        assert_eq!(timelines.note(before, &told(7, 1, 400)), Noted::Same(0), "it was asked for before");
        assert_eq!(timelines.known().map(|k| k.flushed), Some(500));
    }

    #[test]
    fn a_crash_is_another_history() {
        let timelines = Timelines::default();
        assert_eq!(note(&timelines, &crashed(100, 1)), Noted::Same(0));
        assert_eq!(note(&timelines, &crashed(200, 1)), Noted::Same(0));
        let before = timelines.known();
        assert_eq!(note(&timelines, &crashed(300, 2)), Noted::Another(1));
        assert_eq!(timelines.note(before, &crashed(250, 1)), Noted::Same(1), "told before the crash");
        assert_eq!(note(&timelines, &crashed(310, 2)), Noted::Same(1), "and not believed");
    }

    #[test]
    fn a_server_that_cannot_tell_changes_nothing() {
        let timelines = Timelines::default();
        note(&timelines, &told(7, 1, 500));
        let mute = Identity { place: None, ..told(0, 0, 0) };
        assert_eq!(note(&timelines, &mute), Noted::Same(0));
    }
}
