//! What a case consists of. Operations name things by small numbers that are made fit when the operation runs, so that a
//! case stays a case when parts of it are taken away.

use bugle_broker::AckStatus;
use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One operation, and which of the servers it is sent to.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) server: usize,
    pub(crate) op: Op,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Push(Vec<Item>),
    Pop(Pop),
    Ack(Acks),
    /// Each of these in one request.
    Transact(Option<Acks>, Vec<Item>),
    Renew {
        delivery: usize,
        seconds: u64,
    },
    Seek {
        queue: usize,
        partition: Option<usize>,
        group: usize,
        to: To,
    },
    DeleteGroup {
        queue: usize,
        group: usize,
        metadata: bool,
    },
    Configure {
        queue: usize,
        options: Value,
        replace: bool,
        namespace: bool,
    },
    DeleteQueue(usize),
    /// Milliseconds.
    Advance(u64),
    /// The server forgets all it knows.
    Restart,
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) queue: usize,
    pub(crate) partition: usize,
    pub(crate) id: Id,
}

/// A transaction id.
#[derive(Clone, Debug)]
pub(crate) enum Id {
    /// One that is used again and again.
    Often(u8),
    /// One of its own.
    Own,
    /// The server's choice.
    Minted,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pop {
    pub(crate) from: From,
    pub(crate) group: usize,
    pub(crate) batch: Option<u32>,
    pub(crate) partitions: Option<u32>,
    pub(crate) auto_ack: bool,
    pub(crate) lease_seconds: Option<u64>,
    pub(crate) start: Start,
    pub(crate) wait: bool,
    pub(crate) conflation: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum From {
    Lane(usize, usize),
    Queue(usize),
    #[default]
    Namespace,
    Task(usize),
}

/// Where a group asks to begin.
#[derive(Clone, Debug, Default)]
pub(crate) enum Start {
    #[default]
    Unsaid,
    Mode(&'static str),
    Now,
    /// So many milliseconds ago.
    Ago(i64),
}

#[derive(Clone, Debug)]
pub(crate) enum To {
    Beginning,
    End,
    /// So many milliseconds ago.
    Ago(i64),
}

/// Acknowledgements of one request.
#[derive(Clone, Debug)]
pub(crate) struct Acks {
    /// Counted back from the last delivery.
    pub(crate) delivery: usize,
    /// As another group than the one it was delivered to.
    pub(crate) foreign: bool,
    pub(crate) lease: Lease,
    pub(crate) of: Of,
}

#[derive(Clone, Debug)]
pub(crate) enum Of {
    /// All messages of the delivery.
    All(AckStatus),
    /// Some of them, by position.
    Some(Vec<(usize, AckStatus)>),
    /// Whatever was pushed, delivered or not, by position among all pushed messages.
    Any(Vec<(usize, AckStatus)>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Lease {
    Own,
    Unsaid,
    /// That of another delivery.
    Other(usize),
    Garbage,
}

/// Cases of up to so many operations.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..2usize, op()).prop_map(|(server, op)| Step { server, op });
    vec(step, 1..=most)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        24 => vec(item(), 1..6).prop_map(Op::Push),
        30 => pop().prop_map(Op::Pop),
        20 => acks().prop_map(Op::Ack),
        6 => (weighted(0.8, acks()), vec(item(), 0..3)).prop_map(|(acks, items)| Op::Transact(acks, items)),
        4 => (0..4usize, 0..12u64).prop_map(|(delivery, seconds)| Op::Renew { delivery, seconds }),
        3 => (0..2usize, option::of(0..3usize), 0..4usize, to())
            .prop_map(|(queue, partition, group, to)| Op::Seek { queue, partition, group, to }),
        1 => (0..2usize, 0..4usize, any::<bool>())
            .prop_map(|(queue, group, metadata)| Op::DeleteGroup { queue, group, metadata }),
        6 => (0..2usize, options(), weighted(0.1, Just(())), any::<bool>()).prop_map(
            |(queue, options, replace, namespace)| {
                Op::Configure { queue, options, replace: replace.is_some(), namespace }
            }
        ),
        1 => (0..2usize).prop_map(Op::DeleteQueue),
        12 => prop_oneof![4 => 1..1000u64, 4 => 1000..12_000u64, 1 => Just(61_000u64), 1 => Just(3_700_000u64)]
            .prop_map(Op::Advance),
        1 => Just(Op::Restart),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let id = prop_oneof![3 => (0..6u8).prop_map(Id::Often), 4 => Just(Id::Own), 1 => Just(Id::Minted)];
    (0..2usize, 0..3usize, id).prop_map(|(queue, partition, id)| Item { queue, partition, id })
}

fn pop() -> impl Strategy<Value = Pop> {
    let from = prop_oneof![
        4 => (0..2usize, 0..3usize).prop_map(|(queue, partition)| From::Lane(queue, partition)),
        6 => (0..2usize).prop_map(From::Queue),
        1 => Just(From::Namespace),
        1 => (0..2usize).prop_map(From::Task),
    ];
    let start = prop_oneof![
        4 => Just(Start::Unsaid),
        1 => prop::sample::select(vec!["new", "new-only", "all", "from_beginning"]).prop_map(Start::Mode),
        1 => Just(Start::Now),
        1 => (0..20_000i64).prop_map(Start::Ago),
    ];
    let terms = (option::of(0..7u32), option::of(1..4u32), weighted(0.1, Just(())), option::of(1..9u64));
    let flags = (weighted(0.3, Just(())), weighted(0.15, Just(())));
    (from, 0..4usize, terms, start, flags).prop_map(|(from, group, terms, start, (wait, conflation))| {
        let (batch, partitions, auto_ack, lease_seconds) = terms;
        Pop {
            from,
            group,
            batch,
            partitions,
            // Those who name no group cannot, and what is committed by delivery would be lost.
            conflation: conflation.is_some() && group > 0 && auto_ack.is_none(),
            auto_ack: auto_ack.is_some(),
            lease_seconds,
            start,
            wait: wait.is_some(),
        }
    })
}

fn acks() -> impl Strategy<Value = Acks> {
    let lease = prop_oneof![
        12 => Just(Lease::Own),
        2 => Just(Lease::Unsaid),
        1 => (0..4usize).prop_map(Lease::Other),
        1 => Just(Lease::Garbage),
    ];
    let of = prop_oneof![
        5 => status().prop_map(Of::All),
        4 => vec((0..6usize, status()), 1..5).prop_map(Of::Some),
        1 => vec((0..40usize, status()), 1..4).prop_map(Of::Any),
    ];
    (0..4usize, weighted(0.05, Just(())), lease, of).prop_map(|(delivery, foreign, lease, of)| Acks {
        delivery,
        foreign: foreign.is_some(),
        lease,
        of,
    })
}

fn status() -> impl Strategy<Value = AckStatus> {
    prop_oneof![
        5 => Just(AckStatus::Completed),
        3 => Just(AckStatus::Failed),
        1 => Just(AckStatus::Retry),
        1 => Just(AckStatus::Dlq),
    ]
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![Just(To::Beginning), Just(To::End), (0..20_000i64).prop_map(To::Ago)]
}

/// Some options, in and out of range.
fn options() -> impl Strategy<Value = Value> {
    let one = prop_oneof![
        (-1..20i64).prop_map(|n| ("leaseTime", json!(n))),
        (0..3i64).prop_map(|n| ("retryLimit", json!(n))),
        any::<bool>().prop_map(|on| ("deadLetterQueue", json!(on))),
        any::<bool>().prop_map(|on| ("dlqAfterMaxRetries", json!(on))),
        (0..8i64).prop_map(|n| ("dedupWindowSeconds", json!(n))),
        (0..5i64).prop_map(|n| ("delayedProcessing", json!(n))),
        (0..5i64).prop_map(|n| ("windowBuffer", json!(n))),
        (-2..3i64).prop_map(|n| ("priority", json!(n))),
        (-5..3000i64).prop_map(|n| ("retryDelay", json!(n))),
        (1..9i64).prop_map(|n| ("ttl", json!(n))),
        prop::sample::select(vec![json!([]), json!(["retryDelay"]), json!(["priority", "retryDelay"])])
            .prop_map(|names| ("enforce", names)),
        prop::sample::select(vec!["leaseTime", "delayedProcessing", "windowBuffer", "enforce"])
            .prop_map(|name| (name, Value::Null)),
    ];
    vec(one, 0..4).prop_map(|some| some.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
