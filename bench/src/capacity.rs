//! `capacity`: one table over sizes from a hundred waiters to thousands, each row idle first and then woken.

use anyhow::Result;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cli_wait::{CapacityArgs, IdleArgs, WakeArgs};
use crate::{idle, wake};

/// Waiters, keys and what the row is called.
const ROWS: [(usize, usize, &str); 6] = [
    (100, 50, "100 on 50 queues"),
    (500, 200, "500 on 200 queues"),
    (1000, 500, "1,000 on 500 queues"),
    (5000, 2000, "5,000 on 2,000 queues"),
    (1000, 1000, "1,000 on 1,000 queues"),
    (1000, 1, "1,000 on one queue"),
];

const HEAD: &str = "| waiters | idle: server CPU, % of a core | database CPU | statements/s | server RSS, MiB \
| push to delivery p50, ms | p99 | beyond the push's answer p50 | p99 | missing | doubled |\n\
|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Runs the command.
pub(crate) async fn run(args: CapacityArgs) -> Result<Outcome> {
    let (mut table, mut rows, mut ok) = (HEAD.to_owned(), Vec::new(), true);
    for (waiters, keys, name) in ROWS.into_iter().filter(|(waiters, ..)| *waiters <= args.max_waiters) {
        let idle = Box::pin(idle::run(idle_args(&args, waiters, keys))).await?;
        let wake = Box::pin(wake::run(wake_args(&args, waiters, keys))).await?;
        // A long run shows how far it is; standard output stays the table's.
        eprintln!("{}\n{}", idle.json, wake.json);
        ok &= idle.ok && wake.ok;
        table += &row(name, &idle.json, &wake.json);
        rows.push(json!({"name": name, "idle": idle.json, "wake": wake.json}));
    }
    ok &= !rows.is_empty();
    Ok(Outcome {
        json: json!({"command": "capacity", "rows": rows}),
        ok,
        table: Some(table.trim_end().to_owned()),
    })
}

fn idle_args(args: &CapacityArgs, waiters: usize, keys: usize) -> IdleArgs {
    IdleArgs {
        reach: args.reach.clone(),
        watch: args.watch.clone(),
        waiters,
        keys,
        queues: None,
        repoll_seconds: 30.0,
        seconds: args.idle_seconds,
        settle_seconds: args.settle_seconds,
        depart: false,
    }
}

fn wake_args(args: &CapacityArgs, waiters: usize, keys: usize) -> WakeArgs {
    let mut reach = args.reach.clone();
    // The waiters of the idle part have only just left; queues of the same name would still know them.
    reach.queue = reach.queue.map(|queue| format!("{queue}-wake-{waiters}-{keys}"));
    WakeArgs {
        reach,
        watch: args.watch.clone(),
        pop_url: Vec::new(),
        waiters,
        queues: keys,
        groups: 1,
        partitions: 1,
        rate: args.rate,
        producers: 16,
        seconds: args.wake_seconds,
        warmup_seconds: 1.0,
        settle_seconds: 1.0,
        other_waiters: 0,
        other_queues: None,
        timeout_ms: 30_000,
        batch: 10,
        auto_ack: true,
        payload_bytes: 256,
        drain_seconds: 30.0,
        linger_seconds: 1.0,
        fsync_dir: args.fsync_dir.clone(),
    }
}

fn row(name: &str, idle: &Value, wake: &Value) -> String {
    let statements = match &idle["postgres"]["commits_per_s"] {
        Value::Null => cell(&idle["postgres"]["statements_per_s"]),
        commits => format!("{commits} commits"),
    };
    // Not per waiter: a server that has had waiters before takes the memory they left.
    let mib = idle["server_rss_kib_waiting"].as_f64().map(|kib| crate::stats::round(kib / 1024.0));
    let start = &wake["scheduled_push_start_to_delivery_ms"];
    let answer = &wake["push_answer_to_delivery_ms"];
    let cells = [
        name.to_owned(),
        cell(&idle["server_cpu_percent_of_core"]),
        cell(&idle["database_cpu_percent_of_core"]),
        statements,
        cell(&json!(mib)),
        cell(&start["p50"]),
        cell(&start["p99"]),
        cell(&answer["p50"]),
        cell(&answer["p99"]),
        cell(&wake["missing"]),
        cell(&wake["doubled"]),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// What was not measured is a dash, never a zero.
fn cell(value: &Value) -> String {
    if value.is_null() { "–".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column_and_a_dash_for_what_is_not_known() {
        let wake = json!({
            "scheduled_push_start_to_delivery_ms": {"p50": 1.5, "p99": 2.5},
            "push_answer_to_delivery_ms": {"p50": -0.1, "p99": 0.2}, "missing": 0, "doubled": 3,
        });
        let idle = json!({"server_cpu_percent_of_core": 0.4, "server_rss_kib_waiting": 2048});
        let row = row("x", &idle, &wake);
        assert_eq!(row, "| x | 0.4 | – | – | 2.0 | 1.5 | 2.5 | -0.1 | 0.2 | 0 | 3 |\n");
        let columns = |line: &str| line.matches('|').count();
        assert!(HEAD.lines().all(|line| columns(line) == columns(&row)));
    }
}
