//! Plays the chosen scenarios in rounds, some of them side by side, and adds up what they found.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::scenario::{Engine, Scenario};
use crate::stage::Stage;
use crate::table::{Row, Table};

/// A round lasts so long at most: its history has to fit into memory, and what is left has to be taken out.
const ROUND: Duration = Duration::from_secs(60);
/// A short one makes two faults at least, and no more than fit into this time.
const SHORT: Duration = Duration::from_secs(1);

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `bugle` program.
    pub binary: PathBuf,
    /// For all of it, about; `None` = one short round of each.
    pub time: Option<Duration>,
    /// Scenarios at a time.
    pub at_once: usize,
    /// Whether PostgreSQL waits for the disk.
    pub fsync: bool,
    /// What clients do.
    pub seed: u64,
}

/// Those of `all` that are asked for.
pub fn choose(
    all: Vec<Arc<dyn Scenario>>,
    names: &[String],
    engine: Option<Engine>,
) -> Result<Vec<Arc<dyn Scenario>>> {
    for name in names {
        ensure!(all.iter().any(|s| s.name() == name), "there is no fault {name:?}; --list shows them");
    }
    let named = |s: &Arc<dyn Scenario>| match names {
        [] => s.is_usual(),
        names => names.iter().any(|name| name == s.name()),
    };
    let chosen: Vec<_> =
        all.into_iter().filter(|s| named(s) && engine.is_none_or(|engine| engine == s.engine())).collect();
    ensure!(!chosen.is_empty(), "none of these faults is made on that engine");
    Ok(chosen)
}

/// Play them. Those that measure something go last, and alone.
pub async fn play(plan: &Plan, chosen: Vec<Arc<dyn Scenario>>) -> Result<Table> {
    let at_once = plan.at_once.clamp(1, chosen.len());
    let (alone, together): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|s| s.measures());
    let places = together.len().div_ceil(at_once) + alone.len();
    let share = plan.time.map(|time| time / u32::try_from(places.max(1)).unwrap_or(u32::MAX));
    let (seats, mut playing, mut rows) = (Arc::new(Semaphore::new(at_once)), JoinSet::new(), Vec::new());
    for (place, scenario) in together.into_iter().enumerate() {
        let (plan, seats) = (plan.clone(), seats.clone());
        playing.spawn(async move {
            let _seat = seats.acquire().await;
            (place, rounds(&plan, share, scenario.as_ref()).await)
        });
    }
    while let Some(ended) = playing.join_next().await {
        rows.push(ended?);
    }
    rows.sort_by_key(|(place, _)| *place);
    let mut rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    for scenario in alone {
        rows.push(rounds(plan, share, scenario.as_ref()).await);
    }
    Ok(Table(rows))
}

/// Rounds of one scenario until its time is over.
async fn rounds(plan: &Plan, share: Option<Duration>, scenario: &dyn Scenario) -> Row {
    let mut row = Row::new(scenario.name(), scenario.engine());
    let began = Instant::now();
    loop {
        let left = share.map(|share| share.saturating_sub(began.elapsed()));
        let seed = plan.seed.wrapping_add(row.rounds).wrapping_add(row.failures.len() as u64);
        let played = round(plan, left, seed, scenario, &mut row).await;
        if let Err(error) = played {
            say(&format!("{} on {}: {error:#}", scenario.name(), scenario.engine()));
            row.failures.push(format!("{error:#}"));
        }
        let over = share.is_none_or(|share| share.saturating_sub(began.elapsed()) < Duration::from_secs(5));
        // What does not work will not work the next time either.
        if over || row.failures.len() > 2 {
            return row;
        }
    }
}

async fn round(
    plan: &Plan,
    left: Option<Duration>,
    seed: u64,
    scenario: &dyn Scenario,
    row: &mut Row,
) -> Result<()> {
    let time = left.map_or(SHORT, |left| left.min(ROUND));
    // A round of its own length, where that is what is measured.
    let time = if scenario.measures() { left.unwrap_or(time) } else { time };
    let mut stage = Stage::new(&plan.binary, time, left.is_none(), plan.fsync, seed)?;
    let (dir, began) = (stage.dir.clone(), Instant::now());
    let outcome = scenario.run(&mut stage).await.inspect_err(|_| say(&kept(&dir, seed)))?;
    let clean = outcome.report.is_clean();
    say(&format!(
        "{} on {}: {} faults, {} operations, {} unknown, {} violations, {:.2} s without service, took {:.0} s{}",
        scenario.name(),
        scenario.engine(),
        outcome.injected,
        outcome.report.operations,
        outcome.report.unknown,
        outcome.report.counts.values().sum::<u64>(),
        outcome.gap.as_secs_f64(),
        began.elapsed().as_secs_f64(),
        outcome.figures.iter().map(|figure| format!("; {figure}")).collect::<String>(),
    ));
    if clean {
        // What is left behind is only in the way.
        let _ = std::fs::remove_dir_all(&dir);
    } else {
        say(&format!("{}{}", outcome.report, kept(&dir, seed)));
    }
    row.add(outcome);
    Ok(())
}

fn kept(dir: &std::path::Path, seed: u64) -> String {
    format!("seed {seed}; history and logs of the round are in {}", dir.display())
}

fn say(line: &str) {
    // Whoever closed the output does not want to hear it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Outcome;
    use async_trait::async_trait;

    struct Named(&'static str, Engine);

    #[async_trait]
    impl Scenario for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn about(&self) -> &'static str {
            ""
        }
        fn engine(&self) -> Engine {
            self.1
        }
        fn is_usual(&self) -> bool {
            self.0 != "rare"
        }
        async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
            ensure!(stage.short, "not this time");
            Ok(Outcome { injected: 1, ..Outcome::default() })
        }
    }

    fn all() -> Vec<Arc<dyn Scenario>> {
        let named = |name, engine| Arc::new(Named(name, engine)) as Arc<dyn Scenario>;
        vec![named("a", Engine::Embedded), named("a", Engine::Postgres), named("rare", Engine::Postgres)]
    }

    #[test]
    fn faults_are_chosen_by_name_and_engine() {
        let count = |names: &[&str], engine| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            choose(all(), &names, engine).map(|chosen| chosen.len()).ok()
        };
        assert_eq!(count(&[], None), Some(2));
        assert_eq!(count(&["rare"], None), Some(1));
        assert_eq!(count(&["a"], Some(Engine::Embedded)), Some(1));
        assert_eq!(count(&["rare"], Some(Engine::Embedded)), None);
        assert_eq!(count(&["b"], None), None);
    }

    #[tokio::test]
    async fn every_fault_has_a_row_and_a_failed_round_is_told() {
        let plan = |time| Plan { binary: PathBuf::new(), time, at_once: 2, fsync: false, seed: 1 };
        let table = play(&plan(None), all()).await.unwrap();
        assert_eq!(table.0.iter().filter(|row| row.is_good() && row.injected == 1).count(), 3);
        let failed = play(&plan(Some(Duration::ZERO)), all()).await.unwrap();
        assert!(failed.0.iter().all(|row| !row.is_good() && row.failures == ["not this time"]));
    }
}
