//! Rows to values and back.
//!
//! Names and ids come from clients and may hold U+0000; such text is kept escaped by U+E000.

use std::borrow::Cow;

use bugle_pg::{Escape, FromSql, PgError, PgErrorKind, Row};
use bugle_store::{Cursor, Group, Lane, LaneCursor, LaneId, Lease, QueueId, Segment, Timestamp};
use bytes::Bytes;
use uuid::Uuid;

const ESCAPE: Escape = Escape::new('\u{E000}');

/// Columns that describe a lane, see `sql.rs`.
pub(crate) const LANE_COLUMNS: usize = 8;

/// Text as it is kept.
pub(crate) fn to_text(text: &str) -> Cow<'_, str> {
    ESCAPE.kept(text)
}

/// Text as it was given.
pub(crate) fn from_text(text: &str) -> Cow<'_, str> {
    ESCAPE.given(text)
}

/// One column of a row; an answer of another shape is an error, not a panic.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, PgError> {
    Ok(row.try_get(at)?)
}

/// A text column as it was given.
pub(crate) fn text<'a>(row: &'a Row, at: usize) -> Result<Cow<'a, str>, PgError> {
    Ok(from_text(get(row, at)?))
}

/// An offset or other unsigned number.
pub(crate) fn unsigned(row: &Row, at: usize) -> Result<u64, PgError> {
    Ok(get::<i64>(row, at)? as u64)
}

/// A small unsigned number kept as bigint.
pub(crate) fn small(row: &Row, at: usize) -> Result<u32, PgError> {
    let value = get::<i64>(row, at)?;
    u32::try_from(value).map_err(|_| unexpected(format!("{value} is not a count")))
}

/// An answer of another shape.
pub(crate) fn unexpected(message: impl Into<String>) -> PgError {
    PgError::new(PgErrorKind::Unexpected, message)
}

/// A time column.
pub(crate) fn time(row: &Row, at: usize) -> Result<Timestamp, PgError> {
    Ok(Timestamp(get(row, at)?))
}

/// The index an item had in its batch, from SQL's count that starts at 1.
pub(crate) fn index(row: &Row) -> Result<usize, PgError> {
    let n: i32 = get(row, 0)?;
    usize::try_from(n - 1).map_err(|_| unexpected("an item number below 1"))
}

/// A lane from the columns at `at`.
pub(crate) fn lane(row: &Row, at: usize) -> Result<Lane, PgError> {
    Ok(Lane {
        id: LaneId(get(row, at)?),
        queue: QueueId(get(row, at + 1)?),
        name: text(row, at + 2)?.into(),
        head: unsigned(row, at + 3)?,
        tail: unsigned(row, at + 4)?,
        created_at: time(row, at + 5)?,
        written_at: time(row, at + 6)?,
        greatest: get(row, at + 7)?,
    })
}

/// A group and its cursor from the columns at `at`, if the row has any.
pub(crate) fn cursor(row: &Row, at: usize) -> Result<Option<(Group, Cursor)>, PgError> {
    let Some(group) = get::<Option<&str>>(row, at)? else { return Ok(None) };
    let lease = match get::<Option<Uuid>>(row, at + 3)? {
        Some(id) => Some(Lease { id, until: time(row, at + 4)?, end: unsigned(row, at + 5)? }),
        None => None,
    };
    let cursor = Cursor {
        epoch: unsigned(row, at + 1)?,
        committed: unsigned(row, at + 2)?,
        lease,
        attempts: small(row, at + 6)?,
        deliveries: small(row, at + 7)?,
        not_before: time(row, at + 8)?,
        served_at: time(row, at + 9)?,
        consumed: unsigned(row, at + 10)?,
    };
    Ok(Some((from_text(group).into(), cursor)))
}

/// A lane with a cursor; `group` names the one asked for where the row has none.
pub(crate) fn lane_cursor(row: &Row, at: usize, group: Option<&Group>) -> Result<LaneCursor, PgError> {
    let lane = lane(row, at)?;
    match cursor(row, at + LANE_COLUMNS)? {
        Some((group, cursor)) => Ok(LaneCursor { lane, group, cursor: Some(cursor) }),
        None => {
            let group = group.cloned().ok_or_else(|| unexpected("a cursor without a group"))?;
            Ok(LaneCursor { lane, group, cursor: None })
        }
    }
}

/// A segment from the columns at `at`.
pub(crate) fn segment(row: &Row, at: usize) -> Result<Segment, PgError> {
    let count: i32 = get(row, at + 1)?;
    Ok(Segment {
        base: unsigned(row, at)?,
        count: u32::try_from(count).map_err(|_| unexpected("a negative count"))?,
        created_at: time(row, at + 2)?,
        id: unsigned(row, at + 3)?,
        body: Bytes::copy_from_slice(get(row, at + 4)?),
    })
}

/// An offset, limit or size as a parameter; what is beyond PostgreSQL's range means "no limit".
pub(crate) fn limit(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_comes_back_and_is_kept_without_nul() {
        for original in ["", "plain", "a\0b", "\u{E000}", "\u{E000}0", "\0\u{E000}\0", "0\u{E000}\u{E000}0"] {
            let kept = to_text(original);
            assert!(!kept.contains('\0'), "{original:?}");
            assert_eq!(from_text(&kept), original);
        }
    }

    #[test]
    fn different_text_is_kept_differently() {
        assert_ne!(to_text("\u{E000}0"), to_text("\0"));
        assert_ne!(to_text("\u{E000}\0"), to_text("\u{E000}\u{E000}0"));
    }
}
