//! Dead letters: what is stored, listing, filters, deletion.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{ALL, Fixture, at, cursor, message, swap, up};
use crate::{DeadLetter, DeadLetterFilter, Engine, LaneId, Message, Page, Swap, Timestamp};

/// Store these letters with the first exchange of a group made up for it.
async fn bury(f: &Fixture, lane: LaneId, dead: Vec<DeadLetter>) {
    let item = Swap { dead, ..swap(lane, &Uuid::new_v4().to_string(), 0, cursor(0, 0)) };
    f.swap_one(item).await.expect("the first cursor");
}

/// Every field comes back; text is any text without NUL, the message is any bytes.
pub async fn letters_round_trip(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let plain = f.letter(lane, "g", "tx", 2);
    let payload: Vec<u8> = (0..=255).collect();
    let odd = DeadLetter {
        partition: "pärt 'ition' \"1\"".into(),
        group: "grüppe\\".into(),
        offset: 1 << 40,
        message: Message { payload: payload.into(), ..message("tx") }.to_bytes(),
        transaction_id: "\u{1F3BA} {}, \\N \"'".into(),
        error: format!("line 1\nline 2\t\r\u{1}\u{7f}\u{FFFD} {}", "long ".repeat(5000)),
        attempts: 0,
        created_at: Timestamp(at(0).0 + 1),
        failed_at: Timestamp(at(1).0 + 999_999),
        ..f.letter(lane, "g", "", 0)
    };
    let empty = DeadLetter { error: String::new(), ..f.letter(lane, "g", "", 0) };
    bury(&f, lane, vec![plain.clone(), odd.clone(), empty.clone()]).await;
    assert_eq!(f.letters().await, [plain, odd, empty]);
}

/// Latest failure first, page by page, with the total.
pub async fn the_latest_failure_comes_first(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let letters: Vec<_> = [3, 1, 4, 2, 5].map(|s| f.letter(lane, "g", "tx", s)).into();
    bury(&f, lane, letters[..3].to_vec()).await;
    bury(&f, lane, letters[3..].to_vec()).await;
    let mut sorted = letters;
    sorted.sort_by_key(|letter| std::cmp::Reverse(letter.failed_at));
    for (offset, limit, range) in
        [(0, 10, 0..5), (0, 2, 0..2), (2, 2, 2..4), (4, 2, 4..5), (5, 2, 5..5), (0, 0, 0..0)]
    {
        let (found, total) = up(f.dead_letters(f.own(), Page { offset, limit }).await);
        assert_eq!((&found[..], total), (&sorted[range], 5), "offset {offset} limit {limit}");
    }
}

/// Each filter narrows for itself, and all of them together.
pub async fn filters_narrow(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    let foreign = other.lane("a").await;
    let letters = [
        f.letter(a, "g", "t1", 4),
        f.letter(a, "h", "t2", 3),
        f.letter(b, "g", "t1", 2),
        f.letter(b, "h", "t3", 1),
    ];
    bury(&f, a, letters.to_vec()).await;
    let theirs = other.letter(foreign, "g", "t1", 1);
    bury(&other, foreign, vec![theirs.clone()]).await;
    let own = f.own();
    let cases: Vec<(DeadLetterFilter, &[usize])> = vec![
        (own.clone(), &[0, 1, 2, 3]),
        (DeadLetterFilter { lane: Some(b), ..own.clone() }, &[2, 3]),
        (DeadLetterFilter { lane: Some(b), ..DeadLetterFilter::default() }, &[2, 3]),
        (DeadLetterFilter { group: Some("g".into()), ..own.clone() }, &[0, 2]),
        (DeadLetterFilter { transaction_id: Some("t1".into()), ..own.clone() }, &[0, 2]),
        (DeadLetterFilter { id: Some(letters[1].id), ..DeadLetterFilter::default() }, &[1]),
        (DeadLetterFilter { id: Some(theirs.id), ..own.clone() }, &[]),
        (DeadLetterFilter { from: Some(at(2)), ..own.clone() }, &[0, 1, 2]),
        (DeadLetterFilter { to: Some(at(2)), ..own.clone() }, &[3]),
        (DeadLetterFilter { from: Some(at(2)), to: Some(at(4)), ..own.clone() }, &[1, 2]),
        (
            DeadLetterFilter {
                lane: Some(a),
                group: Some("g".into()),
                transaction_id: Some("t1".into()),
                ..own.clone()
            },
            &[0],
        ),
        (DeadLetterFilter { lane: Some(a), transaction_id: Some("t3".into()), ..own }, &[]),
    ];
    for (filter, expected) in cases {
        let (found, total) = up(f.dead_letters(filter.clone(), ALL).await);
        let expected: Vec<_> = expected.iter().map(|i| letters[*i].clone()).collect();
        assert_eq!((&found, total), (&expected, expected.len() as u64), "{filter:?}");
    }
}

/// A text in the error narrows too, alone and with others; nothing in it is a pattern.
pub async fn the_error_narrows(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let errors = ["time out at 50%", "TIME OUT", "no such_thing", "time out again \\", "50 timeouts"];
    let letters: Vec<_> = (0..)
        .zip(errors)
        .map(|(i, error)| DeadLetter { error: error.into(), ..f.letter(lane, "g", error, 10 - i) })
        .collect();
    bury(&f, lane, letters.clone()).await;
    let cases: [(&str, &[usize]); 6] = [
        ("time out", &[0, 3]),
        ("50%", &[0]),
        ("_", &[2]),
        ("\\", &[3]),
        ("", &[0, 1, 2, 3, 4]),
        ("none", &[]),
    ];
    for (text, expected) in cases {
        let filter = DeadLetterFilter { error: Some(text.into()), ..f.own() };
        let expected: Vec<_> = expected.iter().map(|i| letters[*i].clone()).collect();
        let (found, total) = up(f.dead_letters(filter.clone(), ALL).await);
        assert_eq!((&found, total), (&expected, expected.len() as u64), "{text:?}");
        let page = Page { offset: 1, limit: 1 };
        let (found, total) = up(f.dead_letters(filter.clone(), page).await);
        let second = expected.iter().skip(1).take(1).cloned().collect::<Vec<_>>();
        assert_eq!((found, total), (second, expected.len() as u64), "{text:?}, one");
        let walked = up(f.dead_letters_after(filter, None, 1).await);
        assert_eq!(walked, expected.into_iter().next_back().into_iter().collect::<Vec<_>>(), "{text:?}");
    }
    let both =
        DeadLetterFilter { error: Some("time".into()), transaction_id: Some(errors[0].into()), ..f.own() };
    assert_eq!(up(f.dead_letters(both, ALL).await), (letters[..1].to_vec(), 1));
}

/// A walk from the earliest failure on meets every letter once, whatever is deleted behind it.
pub async fn a_walk_goes_from_the_earliest_failure_on(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    // Some failed at the same time: their ids decide.
    let mut letters: Vec<_> = [3, 1, 2, 1, 3, 1].map(|s| f.letter(a, "g", "tx", s)).into();
    letters.push(f.letter(b, "h", "tx", 2));
    bury(&f, a, letters[..4].to_vec()).await;
    bury(&f, b, letters[4..].to_vec()).await;
    letters.sort_by_key(|letter| (letter.failed_at, letter.id));
    let (mut met, mut after) = (Vec::new(), None);
    loop {
        let some = up(f.dead_letters_after(f.own(), after, 2).await);
        let Some(last) = some.last() else { break };
        after = Some((last.failed_at, last.id));
        assert!(some.len() <= 2);
        assert_eq!(up(f.delete_dead_letters(vec![some[0].id]).await), 1);
        met.extend(some);
    }
    assert_eq!(met, letters);
    let odd: Vec<_> = letters.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(up(f.dead_letters_after(f.own(), None, 100).await), odd, "what was left");
    let lane = DeadLetterFilter { lane: Some(b), from: Some(at(2)), to: Some(at(3)), ..f.own() };
    let of_b: Vec<_> = odd.into_iter().filter(|letter| letter.lane == b).collect();
    assert_eq!(up(f.dead_letters_after(lane, None, 100).await), of_b);
    assert_eq!(up(f.dead_letters_after(f.own(), None, 0).await), []);
}

/// Deletion is by id and counts what was there.
pub async fn deletion_counts_what_was_there(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let letters = [3, 2, 1].map(|s| f.letter(lane, "g", "tx", s));
    bury(&f, lane, letters.to_vec()).await;
    let ids = vec![letters[0].id, Uuid::new_v4(), letters[2].id];
    assert_eq!(up(f.delete_dead_letters(ids.clone()).await), 2);
    assert_eq!(up(f.delete_dead_letters(ids).await), 0);
    assert_eq!(up(f.delete_dead_letters(Vec::new()).await), 0);
    assert_eq!(f.letters().await, letters[1..2]);
}

/// Hundreds of letters may ride on one exchange.
pub async fn many_letters_ride_on_one_exchange(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    let letters: Vec<_> = (0..500).map(|i| f.letter(lane, "g", &i.to_string(), 1000 - i)).collect();
    bury(&f, lane, letters.clone()).await;
    assert_eq!(f.letters().await, letters);
}
