//! Wake matrix: everything that makes an item fetchable happens on node A while node B is parked in fetch. How late is B?

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::contender::Contender;
use crate::lab::Lab;
use crate::matrix_event::{Event, Pair};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table, shown};

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "How late in ms node B, parked in fetch with a poll timeout of {} s, gets what becomes fetchable through node A: median / \
         worst of up to {} rounds (fewer if they take over {} s), ratio of the worst. Counted from the start of the call that makes \
         it so, plus the delay or lease. A provider that returns from fetch at once is asked every 100 ms, as by the runtime.",
        lab.scale.poll_timeout.as_secs(),
        lab.scale.matrix_rounds,
        lab.scale.matrix_budget.as_secs()
    );
    let outcomes =
        if lab.scale.matrix_at_once { at_once(lab, contenders) } else { in_order(lab, contenders) };
    let lines = Event::ALL.into_iter().map(|event| {
        let of_event = outcomes.iter().filter(|(e, _, _)| *e == event);
        let cells = of_event.map(|(_, c, outcome)| (*c, Cell::from_result(outcome, late))).collect();
        Line { label: event.label().to_owned(), better: Better::Lower, cells }
    });
    Table { title: "Wake matrix", about, lines: lines.collect() }
}

type Outcome = (Event, Contender, Result<Samples>);

fn in_order(lab: &Lab, contenders: &[Contender]) -> Vec<Outcome> {
    let pairs = Event::ALL.into_iter().flat_map(|event| contenders.iter().map(move |c| (event, *c)));
    pairs.map(|(event, c)| (event, c, measure(lab, event, c))).collect()
}

/// For a check only: they disturb each other by some milliseconds.
fn at_once(lab: &Lab, contenders: &[Contender]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let all = |c: Contender| Event::ALL.map(|event| (event, c, measure(lab, event, c)));
        let threads: Vec<_> = contenders.iter().map(|c| (*c, scope.spawn(move || all(*c)))).collect();
        let ended = |(c, thread): (Contender, thread::ScopedJoinHandle<'_, [Outcome; Event::ALL.len()]>)| {
            thread.join().unwrap_or_else(|_| Event::ALL.map(|event| (event, c, Err(anyhow!("panicked")))))
        };
        threads.into_iter().flat_map(ended).collect()
    })
}

/// The usual and the worst; ratios are made of the worst.
pub(crate) fn late(samples: &Samples) -> Cell {
    let (median, worst) = (samples.at(0.5).unwrap_or(f64::NAN), samples.max().unwrap_or(f64::NAN));
    let text = match samples.len() {
        1 => shown(worst),
        _ => format!("{} / {}", shown(median), shown(worst)),
    };
    Cell::Figure { text, number: worst }
}

fn measure(lab: &Lab, event: Event, contender: Contender) -> Result<Samples> {
    lab.measure("matrix", contender, async |stage| rounds(lab, stage, event).await)
        .with_context(|| event.label().to_owned())
}

async fn rounds(lab: &Lab, stage: &Stage, event: Event) -> Result<Samples> {
    let pair = Pair::connect(stage, lab.scale.poll_timeout).await?;
    let (mut samples, start) = (Samples::default(), Instant::now());
    for round in 0..lab.scale.matrix_rounds {
        if round > 0 && start.elapsed() > lab.scale.matrix_budget {
            break;
        }
        samples.add(pair.round(event, round).await.with_context(|| format!("round {round}"))?);
    }
    Ok(samples)
}
