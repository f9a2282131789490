//! Groups: the first contact decides.

use std::sync::Arc;

use super::fixture::{Fixture, at, cursor, swap, up};
use crate::{Engine, GroupRecord, QueueId, Start};

fn record(f: &Fixture, group: &str, start: Start) -> GroupRecord {
    GroupRecord { queue: f.queue.id, group: group.into(), start, conflation: false, created_at: at(1) }
}

async fn stored(f: &Fixture) -> Vec<GroupRecord> {
    let snapshot = up(f.snapshot(None).await).expect("a snapshot is given to who knows none");
    let mut own: Vec<_> = snapshot.groups.into_iter().filter(|group| group.queue == f.queue.id).collect();
    own.sort_by(|a, b| a.group.cmp(&b.group));
    own
}

/// The first record wins and is answered to all.
pub async fn the_first_record_wins(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let first = record(&f, "g", Start::New(at(5)));
    let second = GroupRecord { conflation: true, created_at: at(2), ..record(&f, "g", Start::All) };
    assert_eq!(up(f.put_group(first.clone()).await), Some(first.clone()));
    assert_eq!(up(f.put_group(second).await), Some(first.clone()));
    assert_eq!(stored(&f).await, [first]);
}

/// Every start comes back, and so does conflation.
pub async fn records_round_trip(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let records = [
        record(&f, "a", Start::All),
        record(&f, "b", Start::New(crate::Timestamp(at(1).0 + 1))),
        GroupRecord { conflation: true, ..record(&f, "c", Start::From(at(-5))) },
    ];
    for group in &records {
        assert_eq!(up(f.put_group(group.clone()).await).as_ref(), Some(group));
    }
    assert_eq!(stored(&f).await, records);
}

/// A group of an unknown queue is refused.
pub async fn an_unknown_queue_has_no_groups(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let orphan = GroupRecord { queue: QueueId::random(), ..record(&f, "g", Start::All) };
    assert_eq!(up(f.put_group(orphan.clone()).await), None);
    assert!(!up(f.update_group(orphan.clone()).await));
    assert_eq!(up(f.delete_group(orphan.queue, "g".into(), true).await), 0);
}

/// An update replaces what is stored, and only that.
pub async fn updates_replace_the_record(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let first = record(&f, "g", Start::All);
    let next = GroupRecord { conflation: true, created_at: at(7), ..record(&f, "g", Start::From(at(3))) };
    assert!(!up(f.update_group(next.clone()).await));
    assert_eq!(stored(&f).await, []);
    up(f.put_group(first).await);
    assert!(up(f.update_group(next.clone()).await));
    assert_eq!(stored(&f).await, [next]);
}

/// Deleting a group forgets its cursors on this queue, counts them, and its record only if asked.
pub async fn deletion_forgets_cursors(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let lanes = f.sorted_lanes(3).await;
    let elsewhere = other.lane("a").await;
    for lane in &lanes[..2] {
        f.seed(*lane, "g", 1).await;
    }
    f.seed(lanes[0], "h", 1).await;
    other.seed(elsewhere, "g", 1).await;
    let group = record(&f, "g", Start::All);
    up(f.put_group(group.clone()).await);
    assert_eq!(up(f.delete_group(f.queue.id, "g".into(), false).await), 2);
    assert_eq!(stored(&f).await, [group]);
    for lane in &lanes {
        assert_eq!(f.cursor_of(*lane, "g").await, None);
    }
    assert_eq!(f.cursor_of(lanes[0], "h").await, Some(cursor(0, 1)));
    assert_eq!(other.cursor_of(elsewhere, "g").await, Some(cursor(0, 1)));
    assert_eq!(f.swap_one(swap(lanes[0], "g", 0, cursor(0, 2))).await.map(|_| ()), Ok(()), "it starts anew");
    assert_eq!(up(f.delete_group(f.queue.id, "g".into(), true).await), 1);
    assert_eq!(stored(&f).await, []);
    assert_eq!(up(f.delete_group(f.queue.id, "g".into(), true).await), 0);
    let again = record(&f, "g", Start::From(at(9)));
    assert_eq!(up(f.put_group(again.clone()).await), Some(again));
}

/// Of many first contacts one wins, and all learn which.
pub async fn concurrent_first_contacts_agree(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let tasks: Vec<_> = (0..16)
        .map(|i| {
            let f = f.clone();
            tokio::spawn(async move { up(f.put_group(record(&f, "g", Start::New(at(i)))).await) })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a contact").expect("the queue exists"));
    }
    assert!(answers.iter().all(|group| *group == answers[0]));
    assert_eq!(stored(&f).await, answers[..1]);
}
