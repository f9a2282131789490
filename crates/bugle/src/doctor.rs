//! `bugle doctor`: look a data directory or a schema over, say what was found, change nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bugle_pg::PoolOptions;
use bugle_store::{Examination, Severity};
use bugle_store_postgres::PostgresOptions;
use clap::Args;
use serde::Serialize;

/// Arguments of `bugle doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Where messages are kept: `embedded` or a postgres:// address
    #[arg(
        long,
        env = "BUGLE_STORE",
        hide_env_values = true,
        value_name = "embedded|postgres://…",
        default_value = "embedded"
    )]
    store: String,
    /// File to read --store from, since an address may carry a password
    #[arg(long, env = "BUGLE_STORE_FILE", value_name = "FILE")]
    store_file: Option<PathBuf>,
    /// Data directory of the embedded store
    #[arg(long, env = "BUGLE_DATA_DIR", value_name = "DIR", default_value = "./bugle-data")]
    data_dir: PathBuf,
    /// Directory of the spool [default: spool in --data-dir; on PostgreSQL it is looked at only if given]
    #[arg(long, env = "BUGLE_SPOOL_DIR", value_name = "DIR")]
    spool_dir: Option<PathBuf>,
    /// Schema of the tables on PostgreSQL
    #[arg(long, env = "BUGLE_PG_SCHEMA", value_name = "NAME", default_value = "bugle")]
    pg_schema: String,
    /// There is a pooler in transaction mode in between
    #[arg(long, env = "BUGLE_PG_POOLER")]
    pg_pooler: bool,
    /// Where servers listen, if that is not at --store
    #[arg(long, env = "BUGLE_LISTEN_STORE", hide_env_values = true, value_name = "postgres://…")]
    listen_store: Option<String>,
    /// Say it as JSON
    #[arg(long)]
    json: bool,
}

/// `bugle doctor`.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let store = match &args.store_file {
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("store-file {}", path.display()))?;
            text.trim().to_owned()
        }
        None => args.store.clone(),
    };
    let found = if store == "embedded" {
        let spool = args.spool_dir.clone().unwrap_or_else(|| args.data_dir.join("spool"));
        examine_files(&args.data_dir, &spool, false)
    } else {
        examine_schema(args, store)?
    };
    if args.json {
        say_json(&found)?;
    } else {
        say(&found);
    }
    Ok(verdict(&found))
}

/// A data directory with its spool, or the spool alone.
pub(crate) fn examine_files(dir: &Path, spool: &Path, spool_only: bool) -> Examination {
    let mut found = if spool_only { Examination::default() } else { bugle_store_embedded::examine(dir) };
    found.join(bugle_spool::examine(spool));
    found
}

fn examine_schema(args: &DoctorArgs, store: String) -> Result<Examination> {
    let pool = PoolOptions { pooled: args.pg_pooler, ..PoolOptions::default() };
    let options = PostgresOptions { pool, schema: args.pg_schema.clone(), ..PostgresOptions::new(store) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let examined = bugle_store_postgres::examine(options, args.listen_store.as_deref());
    let mut found = runtime.block_on(examined);
    if let Some(spool) = &args.spool_dir {
        found.join(bugle_spool::examine(spool));
    }
    Ok(found)
}

/// 0 = nothing is wrong, 1 = something is damaged, 2 = it cannot be told.
fn verdict(found: &Examination) -> ExitCode {
    match found.worst() {
        None | Some(Severity::Warning) => ExitCode::SUCCESS,
        Some(Severity::Damage) => ExitCode::from(1),
        Some(Severity::Unknown) => ExitCode::from(2),
    }
}

fn in_a_word(found: &Examination) -> &'static str {
    match found.worst() {
        None => "fine",
        Some(Severity::Warning) => "fine, with warnings",
        Some(Severity::Damage) => "damaged",
        Some(Severity::Unknown) => "cannot tell",
    }
}

/// For people.
pub(crate) fn say(found: &Examination) {
    let mut text = String::new();
    let width = found.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &found.facts {
        text += &format!("{name:width$}  {value}\n");
    }
    for finding in &found.findings {
        let severity = match finding.severity {
            Severity::Warning => "warning",
            Severity::Unknown => "unknown",
            Severity::Damage => "damage",
        };
        text += &format!("{severity}: {}: {}\n", finding.place, finding.what);
    }
    if found.more > 0 {
        text += &format!("and {} more\n", found.more);
    }
    text += &format!("{}\n", in_a_word(found));
    crate::serve::say(&text);
}

fn say_json(found: &Examination) -> Result<()> {
    #[derive(Serialize)]
    struct Told<'a> {
        verdict: &'static str,
        facts: serde_json::Map<String, serde_json::Value>,
        findings: &'a [bugle_store::Finding],
        more: u64,
    }
    let facts = found.facts.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let told = Told { verdict: in_a_word(found), facts, findings: &found.findings, more: found.more };
    crate::serve::say(&format!("{}\n", serde_json::to_string_pretty(&told).context("JSON")?));
    Ok(())
}
