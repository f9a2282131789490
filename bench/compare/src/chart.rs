//! The chart: one panel per verb and batch size, one pair of bars per system.

use bugle_bench::{Anchor, Drawing};

use crate::campaign::{Entry, Plan, Who};
use crate::peer::{Shape, Verb};
use crate::report::thousands;

const BAR: f64 = 9.0;
const ROW: f64 = 30.0;
const LABELS: f64 = 250.0;
const BARS: f64 = 240.0;
const PANEL: f64 = LABELS + BARS + 90.0;
const TOP: f64 = 70.0;
/// Bugle's bars and those of others, fewer connections darker.
const OURS: [&str; 2] = ["#0b6e4f", "#6fb99b"];
const THEIRS: [&str; 2] = ["#5b6c7d", "#b3bdc7"];

pub(crate) fn draw(plan: &Plan, entries: &[Entry]) -> String {
    let peers: Vec<&Entry> = entries.iter().filter(|e| matches!(e.who, Who::Peer(_))).collect();
    let panel_height = 40.0 + ROW * peers.len() as f64 + 20.0;
    let mut drawing = Drawing::new(PANEL * 2.0 + 20.0, TOP + panel_height * plan.batches.len() as f64);
    drawing.text(
        (20.0, 28.0),
        20.0,
        Anchor::Start,
        "Messages per second, durable before the answer (more is better)",
    );
    let connections: Vec<String> = plan.connections.iter().map(usize::to_string).collect();
    let legend = format!(
        "Bars from above: {} connections. Median of {} repetition(s).",
        connections.join(", "),
        plan.repetitions
    );
    drawing.text((20.0, 50.0), 13.0, Anchor::Start, &legend);
    for (row, batch) in plan.batches.iter().enumerate() {
        for (column, verb) in [Verb::Push, Verb::Pop].into_iter().enumerate() {
            let corner = (20.0 + PANEL * column as f64, TOP + panel_height * row as f64);
            panel(&mut drawing, plan, &peers, (verb, *batch), corner);
        }
    }
    drawing.finish()
}

fn panel(
    drawing: &mut Drawing,
    plan: &Plan,
    peers: &[&Entry],
    (verb, batch): (Verb, usize),
    (x, y): (f64, f64),
) {
    let rate = |entry: &Entry, connections: usize| {
        entry.median(verb, Shape { batch, connections }).map(|measured| measured.per_second())
    };
    let all = peers.iter().flat_map(|entry| plan.connections.iter().filter_map(|c| rate(entry, *c)));
    let most = all.fold(1.0, f64::max);
    let what = if verb == Verb::Push { "push" } else { "pop and ack" };
    drawing.text((x, y + 20.0), 15.0, Anchor::Start, &format!("{what}, batch {batch}"));
    drawing.line((x + LABELS, y + 30.0), (x + LABELS, y + 34.0 + ROW * peers.len() as f64), "#999");
    for (place, entry) in peers.iter().enumerate() {
        let top = y + 36.0 + ROW * place as f64;
        drawing.text((x + LABELS - 8.0, top + 14.0), 12.0, Anchor::End, entry.who.name());
        let ours = matches!(entry.who, Who::Peer(peer) if peer.is_bugle());
        for (index, connections) in plan.connections.iter().enumerate() {
            let at = top + index as f64 * (BAR + 2.0);
            let Some(rate) = rate(entry, *connections) else { continue };
            let length = (rate / most * BARS).max(1.0);
            let colours = if ours { OURS } else { THEIRS };
            drawing.bar((x + LABELS, at), (length, BAR), colours[index.min(1)]);
            drawing.text((x + LABELS + length + 4.0, at + 8.5), 9.0, Anchor::Start, &thousands(rate));
        }
    }
}
