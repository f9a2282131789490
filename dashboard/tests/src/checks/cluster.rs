//! Two servers on one database.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::page::Page;
use crate::server::{Api, Server};
use crate::traffic::Traffic;

/// Its tables, beside those of other runs on the same database.
fn schema() -> String {
    format!("dashboard_{}", std::process::id())
}

/// What a queue says that takes no more.
const FULL: &str = "is full: 1 of maxSize 1";

/// An application pushes more, in a transaction of its own, than a queue takes.
fn block_inbox(api: &Api, dsn: &str) -> Result<()> {
    let options = json!({ "maxSize": 1, "enforce": ["maxSize"] });
    api.post("/api/v1/configure", &json!({ "queue": "invoices", "options": options }))?;
    let pushes =
        format!("SELECT {}.push('invoices', 'customer-7', n::text) FROM generate_series(1, 3) n", schema());
    let mut psql = Command::new("psql");
    let ran = psql.arg(dsn).args(["-v", "ON_ERROR_STOP=1", "-qc", &pushes]).output().context("psql")?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

pub(crate) fn two_servers(page: &mut Page, program: &Path, dsn: &str) -> Result<()> {
    let start = |name: &str| {
        let flags =
            [format!("--store={dsn}"), format!("--pg-schema={}", schema()), format!("--server-name={name}")];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::start(program, &flags, &page.shots().join(format!("server-{name}.log")))
    };
    let (north, south) = (start("north")?, start("south")?);
    page.turn_to(north.url())?;
    let traffic = Traffic::start(&north.api())?;
    page.load("/cluster")?;
    // Each hears the other, which takes a ping.
    page.until("[...document.querySelectorAll('[aria-label=Carriers] tbody tr')].some((row) => row.innerText.includes('south') && row.innerText.includes('heard'))")?;
    // Also before it did anything that the history tells of.
    page.until("[...document.querySelectorAll('[aria-label=Servers] tbody tr')].some((row) => row.innerText.includes('south'))")?;
    page.until_text("PostgreSQL: tables")?;
    page.until("document.querySelectorAll('[aria-label=Tables] tbody tr').length > 5")?;
    // A push through the other one arrives at a consumer that waits here, and the other one is listed for it.
    south.api().post("/api/v1/push", &json!({ "items": [{ "queue": "orders", "payload": "from afar" }] }))?;
    ensure!(page.eval("document.body.innerText.includes('postgres')")? == true, "the engine is named");
    block_inbox(&north.api(), dsn)?;
    page.eval("new Promise((done) => setTimeout(done, 6000))")?;
    page.until(&format!(
        "document.querySelector('a[href=\"#/queues/invoices\"]')?.innerText.includes('{FULL}')"
    ))?;
    page.judge("cluster-postgres")?;

    page.go("/")?;
    page.until("document.querySelector('main').innerText.includes('1 of 1')")?;
    page.until(&format!(
        "document.querySelector('dl.facts a[href=\"#/queues/invoices\"]')?.innerText.includes('{FULL}')"
    ))?;
    page.judge("overview-postgres")?;

    traffic.stop();
    page.settle("two servers").map(drop)
}
