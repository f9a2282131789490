//! A server with nothing in it.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::page::Page;
use crate::server::Api;

/// Bytes of the first page, with everything it needs.
const FIRST_PAGE: u64 = 300_000;

pub(super) fn first_page(page: &mut Page, _: &Api) -> Result<()> {
    page.load("/")?;
    page.until_text("No queues yet")?;
    page.until("document.querySelectorAll('.tile').length === 8")?;
    let ready = page.eval("Math.round(performance.getEntriesByName('bugle-ready')[0]?.startTime ?? -1)")?;
    let bytes = page.settle("first page")?.bytes;
    eprintln!("     first page: {bytes} bytes transferred, usable after {ready} ms");
    ensure!(bytes > 0 && bytes < FIRST_PAGE, "the first page has {bytes} bytes");
    ensure!(ready.as_i64() > Some(0), "the page says when it is ready: {ready}");
    page.judge("overview-empty")
}

pub(super) fn pages_teach(page: &mut Page, _: &Api) -> Result<()> {
    for (place, teaches) in [
        ("/queues", "curl -X POST"),
        ("/messages", "curl -X POST"),
        ("/dead-letters", "\"status\":\"dlq\""),
        ("/groups", "consumerGroup=billing"),
        ("/waiting", "wait=true"),
        ("/cluster", "No carriers"),
        ("/traces", "/api/v1/traces"),
    ] {
        page.go(place)?;
        page.until_text(teaches)?;
    }
    page.go("/queues")?;
    page.judge("queues-empty")
}

pub(super) fn keys(page: &mut Page, _: &Api) -> Result<()> {
    page.load("/")?;
    page.until("document.querySelector('h1')?.innerText === 'Overview'")?;
    for (letter, title) in [("q", "Queues"), ("w", "Waiting room"), ("d", "Dead letters"), ("o", "Overview")]
    {
        page.key("g")?;
        page.key(letter)?;
        page.until(&format!("document.querySelector('h1')?.innerText === {}", json!(title)))?;
    }
    page.key("g")?;
    page.key("m")?;
    page.until("document.querySelector('[data-filter]')")?;
    page.key("/")?;
    page.until("document.activeElement?.matches('[data-filter]')")?;
    page.eval("document.activeElement.blur()")?;
    page.key("?")?;
    page.until("document.querySelector('dialog[open] kbd')")?;
    page.eval("document.querySelector('dialog').close()")?;
    for theme in ["light", "dark"] {
        page.key("t")?;
        page.until(&format!("document.documentElement.dataset.theme === {}", json!(theme)))?;
    }
    page.key("t")?;
    page.until("document.documentElement.dataset.theme === undefined")
}
