//! What has become of a message, told from the cursors of those who read its lane.
//!
//! A lane has no state per message, so status is derived: behind a group's cursor it is done, under the group's lease
//! it is being worked on, otherwise it is to come.

use bugle_store::{Cursor, Group, Now, Offset, QUEUE_MODE, Start, Timestamp};

use crate::api::{GroupView, MessageStatus};

/// A group of a queue, and its cursor on one lane.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) group: Group,
    pub(crate) start: Start,
    pub(crate) cursor: Option<Cursor>,
}

/// How `reader` stands to the message at `offset`. `dead` says whether it has a dead letter of it.
pub(crate) fn view(
    reader: &Reader,
    offset: Offset,
    created_at: Timestamp,
    dead: bool,
    now: Now,
) -> GroupView {
    let consumed = match (&reader.cursor, reader.start) {
        (Some(cursor), _) => offset < cursor.committed,
        (None, Start::All) => false,
        // It begins after this time, so what is older is behind it from the start.
        (None, Start::New(at) | Start::From(at)) => created_at <= at,
    };
    let lease = reader.cursor.as_ref().filter(|_| !consumed).and_then(|cursor| cursor.lease);
    let held = lease.filter(|lease| offset < lease.end && now.earliest < lease.until);
    GroupView { name: reader.group.clone(), consumed, dead, lease_expires_at: held.map(|lease| lease.until) }
}

/// The status of a message, by the group of anonymous consumers where there is one, otherwise by all groups.
pub(crate) fn status(groups: &[GroupView]) -> MessageStatus {
    queue_status(groups).unwrap_or_else(|| judge(groups))
}

/// The status by the group of anonymous consumers, where there is one.
pub(crate) fn queue_status(groups: &[GroupView]) -> Option<MessageStatus> {
    let anonymous = groups.iter().position(|group| &*group.name == QUEUE_MODE)?;
    Some(judge(&groups[anonymous..=anonymous]))
}

fn judge(groups: &[GroupView]) -> MessageStatus {
    if groups.iter().any(|group| group.dead) {
        MessageStatus::DeadLetter
    } else if !groups.is_empty() && groups.iter().all(|group| group.consumed) {
        MessageStatus::Completed
    } else if groups.iter().any(|group| group.lease_expires_at.is_some()) {
        MessageStatus::Processing
    } else {
        MessageStatus::Pending
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::Lease;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn reader(group: &str, start: Start, cursor: Option<(Offset, Option<(Offset, i64)>)>) -> Reader {
        let cursor = cursor.map(|(committed, lease)| Cursor {
            lease: lease.map(|(end, until)| Lease { id: Uuid::nil(), until: Timestamp(until), end }),
            ..Cursor::fresh(committed)
        });
        Reader { group: group.into(), start, cursor }
    }

    fn seen(reader: &Reader, dead: bool) -> GroupView {
        view(reader, 5, Timestamp(500), dead, Now::exactly(NOW))
    }

    #[test]
    fn a_group_is_told_by_its_cursor_and_its_lease() {
        for (cursor, status) in [
            (None, MessageStatus::Pending),
            (Some((5, None)), MessageStatus::Pending),
            (Some((6, None)), MessageStatus::Completed),
            (Some((3, Some((6, 1001)))), MessageStatus::Processing),
            (Some((3, Some((5, 1001)))), MessageStatus::Pending),
            (Some((3, Some((6, 1000)))), MessageStatus::Pending),
            (Some((6, Some((9, 1001)))), MessageStatus::Completed),
        ] {
            assert_eq!(
                status_of(&[seen(&reader(QUEUE_MODE, Start::All, cursor), false)]),
                status,
                "{cursor:?}"
            );
        }
    }

    fn status_of(groups: &[GroupView]) -> MessageStatus {
        status(groups)
    }

    #[test]
    fn a_group_that_begins_later_is_past_what_is_older() {
        for (start, consumed) in
            [(Start::All, false), (Start::New(Timestamp(500)), true), (Start::From(Timestamp(499)), false)]
        {
            assert_eq!(seen(&reader("g", start, None), false).consumed, consumed, "{start:?}");
        }
        assert!(
            !seen(&reader("g", Start::New(NOW), Some((0, None))), false).consumed,
            "a cursor counts more"
        );
    }

    #[test]
    fn anonymous_consumers_decide_where_there_are_any_and_otherwise_all_groups() {
        let done = |group: &str| seen(&reader(group, Start::All, Some((6, None))), false);
        let open = |group: &str| seen(&reader(group, Start::All, Some((5, None))), false);
        let dead = |group: &str| seen(&reader(group, Start::All, Some((6, None))), true);
        assert_eq!(status(&[]), MessageStatus::Pending);
        assert_eq!(status(&[open("a"), done(QUEUE_MODE)]), MessageStatus::Completed);
        assert_eq!(status(&[done("a"), open(QUEUE_MODE)]), MessageStatus::Pending);
        assert_eq!(status(&[dead("a"), done(QUEUE_MODE)]), MessageStatus::Completed);
        assert_eq!(status(&[done("a"), open("b")]), MessageStatus::Pending);
        assert_eq!(status(&[done("a"), done("b")]), MessageStatus::Completed);
        assert_eq!(status(&[done("a"), dead("b")]), MessageStatus::DeadLetter);
        assert_eq!(queue_status(&[done("a")]), None);
    }
}
