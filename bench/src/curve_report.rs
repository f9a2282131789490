//! What `curve` found: where the knee is, a table, and a drawing.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stats::round;
use crate::svg::{Anchor, Drawing};

/// One offered rate. Rates are messages per second, times milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) offered: f64,
    pub(crate) answered: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) refused: f64,
    /// Requests answered with 429.
    pub(crate) refused_requests: u64,
    pub(crate) errors: Value,
}

/// Half of the knee, beside what its storage needs there, and after a flood. Times are milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfKnee {
    pub(crate) rate: f64,
    pub(crate) p99: f64,
    /// p99 of the yardstick by itself before the window, seldom inside of it, and by itself after it.
    pub(crate) probe_before: f64,
    pub(crate) probe_beside: f64,
    pub(crate) probe_after: f64,
    /// Whether the yardstick was held at the rate of the requests where it was by itself.
    pub(crate) at_rate: bool,
    /// Requests refused while twice as much was asked for as a closed loop reached.
    pub(crate) flood_refused: u64,
    /// The same rate right after that.
    pub(crate) returned_p50: f64,
    pub(crate) returned_p99: f64,
    pub(crate) returned_answered: f64,
}

impl HalfKnee {
    /// The yardstick that counts: in the window itself for a disk; at the same rate for commits, of which few would not be the
    /// same thing, so the mean of before and after.
    fn probe(&self) -> f64 {
        if self.at_rate { f64::midpoint(self.probe_before, self.probe_after) } else { self.probe_beside }
    }

    /// How many times its yardstick the latency is.
    fn times(&self) -> f64 {
        self.p99 / self.probe().max(0.001)
    }
}

/// All steps of one engine and batch size.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) engine: &'static str,
    pub(crate) batch: usize,
    /// What a closed loop over as many connections reached.
    pub(crate) closed: f64,
    pub(crate) steps: Vec<Step>,
    pub(crate) half_knee: Option<HalfKnee>,
}

/// The highest offered rate that was still kept up with: nearly all was answered in time and the median has not left the order of
/// what it is without load.
pub(crate) fn knee(steps: &[Step]) -> Option<f64> {
    let calm = steps.first()?.p50;
    let kept = |step: &&Step| step.answered >= step.offered * 0.97 && step.p50 <= calm.max(1.0) * 10.0;
    steps.iter().take_while(kept).map(|step| step.offered).last()
}

impl Curve {
    fn past(&self) -> impl Iterator<Item = &Step> {
        let knee = knee(&self.steps);
        self.steps.iter().filter(move |step| knee.is_some_and(|knee| step.offered > knee))
    }

    /// The least that was answered at rates above the knee, against the knee: below 1, asking for more gives less.
    pub(crate) fn past_knee(&self) -> Option<f64> {
        let knee = knee(&self.steps)?;
        self.past().map(|step| step.answered).reduce(f64::min).map(|least| least / knee.max(1.0))
    }

    /// Requests answered with 429 at rates above the knee.
    pub(crate) fn refused_past_knee(&self) -> u64 {
        self.past().map(|step| step.refused_requests).sum()
    }

    fn name(&self) -> String {
        format!("{}, batch {}", self.engine, self.batch)
    }

    pub(crate) fn json(&self) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|s| {
                json!({"offered": round(s.offered), "answered": round(s.answered), "p50_ms": s.p50, "p99_ms": s.p99,
                       "p99.9_ms": s.p999, "refused": round(s.refused), "refused_requests": s.refused_requests,
                       "errors": s.errors})
            })
            .collect();
        let half = self.half_knee.map(|h| {
            json!({"rate": round(h.rate), "p99_ms": h.p99, "probe": if h.at_rate { "commit of a row" } else { "fdatasync" },
                   "probe_p99_ms": round(h.probe()), "probe_before_p99_ms": h.probe_before,
                   "probe_beside_p99_ms": h.probe_beside, "probe_after_p99_ms": h.probe_after, "times": round(h.times()),
                   "flood_refused_requests": h.flood_refused, "after_flood_p50_ms": h.returned_p50,
                   "after_flood_p99_ms": h.returned_p99, "after_flood_answered": round(h.returned_answered)})
        });
        json!({"engine": self.engine, "batch": self.batch, "closed_loop": self.closed, "knee": knee(&self.steps).map(round),
               "least_past_knee_of_knee": self.past_knee().map(round), "refused_requests_past_knee": self.refused_past_knee(),
               "half_knee": half, "steps": steps})
    }
}

/// The curves as markdown.
pub(crate) fn table(curves: &[Curve]) -> String {
    let mut text =
        "| engine, batch | offered, msgs/s | answered | p50, ms | p99 | p99.9 | refused, msgs/s |\n\
                    |---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for curve in curves {
        let knee = knee(&curve.steps);
        for step in &curve.steps {
            let mark = if Some(step.offered) == knee { " **knee**" } else { "" };
            let _ = writeln!(
                text,
                "| {}{mark} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.0} |",
                curve.name(),
                step.offered,
                step.answered,
                step.p50,
                step.p99,
                step.p999,
                step.refused
            );
        }
    }
    text.push_str(HALF_TITLE);
    curves.iter().filter_map(|curve| Some((curve, curve.half_knee?))).for_each(|(curve, half)| {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.2} | {} | {:.2} / {:.2} / {:.2} | **{:.2}** | 3 |",
            curve.name(),
            knee(&curve.steps).unwrap_or(0.0),
            half.rate,
            half.p99,
            if half.at_rate { "commit of a row at that rate" } else { "fdatasync of 4 KiB" },
            half.probe_before,
            half.probe_beside,
            half.probe_after,
            half.times()
        );
    });
    text.push_str(PAST_TITLE);
    for curve in curves {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
        let half = curve.half_knee;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {} | {} | {} | {} → {} | {} |",
            curve.name(),
            curve.closed,
            number(knee(&curve.steps), 0),
            number(curve.past_knee(), 2),
            curve.refused_past_knee(),
            number(half.map(|h| h.returned_p50), 2),
            number(half.map(|h| h.p99), 2),
            number(half.map(|h| h.returned_p99), 2),
            number(half.map(|h| h.returned_answered / h.rate.max(1.0)), 2)
        );
    }
    text
}

const HALF_TITLE: &str = "\nAt half of the knee, beside the same promise without a queue. Syncs of a disk count inside the window, commits at the \
    same rate right before and after it (inside of it there are few).\n\n\
    | engine, batch | knee, msgs/s | half, msgs/s | push p99, ms | probe | its p99 before / inside / after, ms | times | bar |\n\
    |---|--:|--:|--:|---|--:|--:|--:|\n";
const PAST_TITLE: &str = "\nPast the knee, and back at half of it right after twice of what a closed loop reached.\n\n\
    | engine, batch | closed loop, msgs/s | knee | least answered past the knee, of the knee | requests refused (429) there \
    | back at half: p50, ms | p99 before → back at half, ms | answered there, of what was offered |\n\
    |---|--:|--:|--:|--:|--:|--:|--:|\n";

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 380.0;
/// Room around the axes: left, right, above, below.
const ROOM: (f64, f64, f64, f64) = (60.0, 20.0, 50.0, 50.0);
/// Colours of p50 and p99.
const COLOURS: [(&str, &str); 2] = [("p50", "#0b6e4f"), ("p99", "#b4530a")];

/// A panel for each curve: time from due to answer, on a logarithmic scale, against what was answered.
pub(crate) fn draw(curves: &[Curve]) -> String {
    let rows = curves.len().div_ceil(2).max(1) as f64;
    let mut drawing = Drawing::new(WIDTH * 2.0, 40.0 + HEIGHT * rows);
    let title = "Open-loop pushes: time from the moment a request was due to its answer";
    drawing.text((20.0, 28.0), 18.0, Anchor::Start, title);
    for (index, curve) in curves.iter().enumerate() {
        let corner = (WIDTH * (index % 2) as f64, 40.0 + HEIGHT * (index / 2) as f64);
        panel(&mut drawing, curve, corner);
    }
    drawing.finish()
}

fn panel(drawing: &mut Drawing, curve: &Curve, (x, y): (f64, f64)) {
    let (left, right) = (x + ROOM.0, x + WIDTH - ROOM.1);
    let (top, bottom) = (y + ROOM.2, y + HEIGHT - ROOM.3);
    let most = curve.steps.iter().map(|step| step.answered).fold(1.0, f64::max);
    // Whole decades that hold all times.
    let times = curve.steps.iter().flat_map(|step| [step.p50, step.p99]).map(|t| t.max(0.01));
    let (low, high) = times.fold((f64::MAX, f64::MIN), |(low, high), t| (low.min(t), high.max(t)));
    let (low, high) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let across = |rate: f64| left + (right - left) * rate / most;
    let up = |ms: f64| bottom - (bottom - top) * (ms.max(0.01).log10() - low) / (high - low);
    drawing.text((left, y + 30.0), 15.0, Anchor::Start, &curve.name());
    for decade in low as i32..=high as i32 {
        let at = up(10f64.powi(decade));
        drawing.line((left, at), (right, at), "#ddd");
        drawing.text((left - 6.0, at + 4.0), 11.0, Anchor::End, &format!("{} ms", 10f64.powi(decade)));
    }
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = across(most * part);
        drawing.text((at, bottom + 18.0), 11.0, Anchor::Middle, &format!("{:.0}", most * part));
    }
    drawing.text(
        ((left + right) / 2.0, bottom + 36.0),
        12.0,
        Anchor::Middle,
        "answered, messages per second",
    );
    drawing.line((left, bottom), (right, bottom), "#666");
    let ways: [fn(&Step) -> f64; 2] = [|step| step.p50, |step| step.p99];
    for ((name, colour), way) in COLOURS.into_iter().zip(ways) {
        let points: Vec<(f64, f64)> = curve.steps.iter().map(|s| (across(s.answered), up(way(s)))).collect();
        if let Some(end) = points.first() {
            drawing.text((end.0, end.1 - 8.0), 11.0, Anchor::Middle, name);
        }
        drawing.curve(&points, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(steps: &[(f64, f64, f64)]) -> Curve {
        let step = |(offered, answered, p50): &(f64, f64, f64)| Step {
            offered: *offered,
            answered: *answered,
            p50: *p50,
            p99: *p50 * 2.0,
            p999: *p50 * 3.0,
            refused: 0.0,
            refused_requests: 3,
            errors: json!({}),
        };
        let steps = steps.iter().map(step).collect();
        Curve { engine: "embedded", batch: 1, closed: 1.0, steps, half_knee: None }
    }

    #[test]
    fn the_knee_is_the_last_rate_that_is_kept_up_with() {
        let found = curve(&[(10.0, 10.0, 1.0), (50.0, 50.0, 2.0), (100.0, 90.0, 30.0), (200.0, 80.0, 900.0)]);
        assert_eq!(knee(&found.steps), Some(50.0));
        assert_eq!((found.past_knee(), found.refused_past_knee()), (Some(80.0 / 50.0), 6));
        let slow = curve(&[(10.0, 10.0, 1.0), (50.0, 50.0, 11.0), (60.0, 60.0, 1.0)]);
        assert_eq!(
            knee(&slow.steps),
            Some(10.0),
            "a median of more than ten times the calm one is past the knee"
        );
        assert_eq!(knee(&curve(&[(10.0, 5.0, 1.0)]).steps), None);
    }

    #[test]
    fn a_disk_is_the_yardstick_inside_the_window_and_a_commit_at_the_same_rate() {
        let half = HalfKnee {
            rate: 10.0,
            p99: 6.0,
            probe_before: 1.0,
            probe_beside: 2.0,
            probe_after: 5.0,
            at_rate: false,
            flood_refused: 0,
            returned_p50: 1.0,
            returned_p99: 7.0,
            returned_answered: 10.0,
        };
        assert_eq!(half.times(), 3.0);
        assert_eq!(HalfKnee { at_rate: true, ..half }.times(), 2.0);
        let with = Curve { half_knee: Some(half), ..curve(&[(10.0, 10.0, 1.0)]) };
        assert!(table(&[with]).contains("| 1.00 / 2.00 / 5.00 | **3.00** | 3 |"));
    }

    #[test]
    fn a_table_and_a_drawing_have_every_step() {
        let found = curve(&[(10.0, 10.0, 0.001), (50.0, 50.0, 2.0), (100.0, 60.0, 3000.0)]);
        assert_eq!(table(std::slice::from_ref(&found)).matches("embedded, batch 1").count(), 4);
        let drawing = draw(&[found]);
        assert_eq!(drawing.matches("<circle").count(), 6);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
    }
}
