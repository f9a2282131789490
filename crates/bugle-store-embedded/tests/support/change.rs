//! Changes to a store, as values: chosen first, made later, so that it is known what a store holds before and after each.

use bugle_store::{
    Append, Commit, Engine, Expire, GroupRecord, NewLane, PutQueue, PutSwitches, Queue, QueueId, Swap,
    Switches, Timestamp, Trace, Trim, Unavailable,
};
use uuid::Uuid;

/// One call that changes something, with the answer it must get.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Append(Vec<Append>),
    Commit(Commit),
    Swap(Swap),
    /// What is removed of each.
    Trim(Vec<Trim>, Vec<u64>),
    Trace(Trace),
    Bury(Vec<Uuid>),
    CollectLanes,
    Queue(Queue),
    DeleteQueue(QueueId),
    Group(GroupRecord),
    DeleteGroup(QueueId, &'static str),
    Lane(NewLane),
    Switches(PutSwitches, Switches),
}

impl Change {
    /// Make it.
    pub(crate) async fn make(self, store: &dyn Engine) -> Result<(), Unavailable> {
        match self {
            Change::Append(batch) => {
                let done = store.append(batch).await?;
                assert!(done.iter().all(Result::is_ok), "{done:?}");
            }
            Change::Commit(set) => assert!(store.commit(vec![set]).await?[0].is_ok()),
            Change::Swap(item) => assert!(store.swap(vec![item]).await?[0].is_ok()),
            Change::Trim(items, removed) => assert_eq!(store.trim(items).await?, removed),
            Change::Trace(trace) => store.put_trace(trace).await?,
            Change::Bury(ids) => {
                let count = ids.len() as u64;
                assert_eq!(store.delete_dead_letters(ids).await?, count);
            }
            Change::CollectLanes => drop(store.expire(Expire::Lanes(Timestamp::MAX), 1000).await?),
            Change::Queue(queue) => {
                let stored = store.put_queue(queue).await?;
                assert!(matches!(stored, PutQueue::Stored(_)), "{stored:?}");
            }
            Change::DeleteQueue(queue) => assert!(store.delete_queue(queue).await?),
            Change::Group(group) => assert!(store.put_group(group).await?.is_some()),
            Change::DeleteGroup(queue, group) => {
                store.delete_group(queue, group.into(), true).await?;
            }
            Change::Lane(lane) => assert!(store.ensure_lanes(vec![lane]).await?[0].is_ok()),
            Change::Switches(change, wanted) => assert_eq!(store.put_switches(change).await?, wanted),
        }
        Ok(())
    }
}
