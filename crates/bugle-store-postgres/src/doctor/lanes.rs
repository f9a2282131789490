//! All lanes, page by page, with their segments and cursors: the same rules as for any other store.

use std::collections::HashMap;

use bugle_pg::{PgError, Type};
use bugle_store::{Cursor, Examination, Group, LaneId, Offset, QueueId, cursor_fault, first_gap};
use uuid::Uuid;

use super::Looking;
use crate::row::{cursor, get, text, unsigned};

/// A lane as its row tells it.
struct LaneRow {
    id: LaneId,
    queue: QueueId,
    name: String,
    head: Offset,
    tail: Offset,
    /// Name of its queue, if there is one.
    of: Option<String>,
}

/// What was found of a lane elsewhere.
#[derive(Default)]
struct Parts {
    segments: Vec<(Offset, u32)>,
    cursors: Vec<(Group, Cursor)>,
}

/// Totals over all lanes.
#[derive(Default)]
struct Totals {
    lanes: u64,
    messages: u64,
    segments: u64,
    cursors: u64,
}

pub(super) async fn lanes(looking: &mut Looking, found: &mut Examination) -> Result<(), PgError> {
    let rows = looking.ask("SELECT buckets FROM {schema}.meta WHERE id = 1", &[], &[]).await?;
    let Some(row) = rows.first() else {
        found.damage("table meta", "its row is missing");
        return Ok(());
    };
    let buckets: i32 = get(row, 0)?;
    found.fact("buckets", buckets);
    let mut totals = Totals::default();
    for bucket in 0..buckets {
        let mut after = Uuid::nil();
        loop {
            let page = page(looking, bucket, after).await?;
            let Some((last, _)) = page.last() else { break };
            after = last.id.0;
            for (lane, mut parts) in page {
                totals.lanes += 1;
                totals.messages += lane.head.saturating_sub(lane.tail);
                totals.segments += parts.segments.len() as u64;
                totals.cursors += parts.cursors.len() as u64;
                judge(&lane, &mut parts, bucket as u32, buckets as u32, found);
            }
        }
    }
    for row in looking.ask(include_str!("../../sql/doctor/orphans.sql"), &[], &[]).await? {
        let (kind, lane, count) = (get::<&str>(&row, 0)?, get::<Uuid>(&row, 1)?, get::<i64>(&row, 2)?);
        found.damage(format!("lane {lane}"), format!("is gone, but has {count} {kind}"));
    }
    found.fact("lanes", totals.lanes);
    found.fact("messages", totals.messages);
    found.fact("segments", totals.segments);
    found.fact("cursors", totals.cursors);
    Ok(())
}

async fn page(looking: &mut Looking, bucket: i32, after: Uuid) -> Result<Vec<(LaneRow, Parts)>, PgError> {
    const AFTER: &[Type] = &[Type::INT4, Type::UUID];
    const OF: &[Type] = &[Type::INT4, Type::UUID_ARRAY];
    let rows = looking.ask(include_str!("../../sql/doctor/lanes.sql"), AFTER, &[&bucket, &after]).await?;
    let mut lanes = Vec::with_capacity(rows.len());
    for row in &rows {
        let of = get::<Option<&str>>(row, 5)?.map(str::to_owned);
        let (id, queue, name) = (LaneId(get(row, 0)?), QueueId(get(row, 1)?), text(row, 2)?.into_owned());
        lanes.push(LaneRow { id, queue, name, head: unsigned(row, 3)?, tail: unsigned(row, 4)?, of });
    }
    let ids: Vec<Uuid> = lanes.iter().map(|lane| lane.id.0).collect();
    let mut parts: HashMap<Uuid, Parts> = HashMap::new();
    for row in looking.ask(include_str!("../../sql/doctor/segments.sql"), OF, &[&bucket, &ids]).await? {
        let count = u32::try_from(get::<i32>(&row, 2)?).unwrap_or(0);
        parts.entry(get(&row, 0)?).or_default().segments.push((unsigned(&row, 1)?, count));
    }
    for row in looking.ask(include_str!("../../sql/doctor/cursors.sql"), OF, &[&bucket, &ids]).await? {
        parts.entry(get(&row, 0)?).or_default().cursors.extend(cursor(&row, 1)?);
    }
    Ok(lanes
        .into_iter()
        .map(|lane| {
            let of_lane = parts.remove(&lane.id.0).unwrap_or_default();
            (lane, of_lane)
        })
        .collect())
}

fn judge(lane: &LaneRow, parts: &mut Parts, bucket: u32, buckets: u32, found: &mut Examination) {
    let queue = lane.of.as_deref().unwrap_or("?");
    let place = format!("lane {} (queue {queue}, partition {})", lane.id, lane.name);
    if lane.of.is_none() {
        found.damage(&place, format!("its queue {} is gone", lane.queue));
    }
    if LaneId::derive(lane.queue, &lane.name) != lane.id || lane.id.bucket(buckets) != bucket {
        found.damage(&place, format!("is not where its names put it (bucket {bucket} of {buckets})"));
    }
    if lane.tail > lane.head {
        found.damage(&place, format!("begins at {} and ends at {}", lane.tail, lane.head));
        return;
    }
    if let Some(gap) = first_gap(lane.tail, lane.head, &mut parts.segments) {
        let what = format!("holds {} to {}, but the message at {gap} is in no segment", lane.tail, lane.head);
        found.damage(&place, what);
    }
    if let Some(fault) = segment_fault(lane.tail, lane.head, &parts.segments) {
        found.damage(&place, fault);
    }
    for (group, cursor) in &parts.cursors {
        if let Some(fault) = cursor_fault(lane.head, cursor) {
            found.damage(format!("{place}, group {group}"), fault);
        }
    }
}

/// What is wrong with segments, sorted by their base, beside gaps.
fn segment_fault(tail: Offset, head: Offset, segments: &[(Offset, u32)]) -> Option<String> {
    let mut before = 0;
    for (base, count) in segments {
        let end = base.saturating_add(Offset::from(*count));
        if *base < before {
            return Some(format!("two segments hold the message at {base}"));
        }
        if end > head {
            return Some(format!("a segment at {base} reaches to {end}, but the lane ends at {head}"));
        }
        if *count == 0 || end <= tail {
            return Some(format!("the segment at {base} holds nothing that is kept"));
        }
        before = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_lie_side_by_side_inside_the_lane() {
        for (segments, wrong) in [
            (vec![], false),
            (vec![(0, 4), (4, 2)], false),
            (vec![(0, 4), (3, 3)], true),
            (vec![(4, 3)], true),
            (vec![(0, 2), (2, 4)], true),
            (vec![(2, 0)], true),
        ] {
            assert_eq!(segment_fault(2, 6, &segments).is_some(), wrong, "{segments:?}");
        }
    }
}
