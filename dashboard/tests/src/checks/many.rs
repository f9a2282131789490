//! Ten thousand queues.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::page::Page;
use crate::server::Api;

const QUEUES: usize = 10_000;
const AT_ONCE: usize = 1000;

pub(super) fn ten_thousand(page: &mut Page, api: &Api) -> Result<()> {
    for start in (0..QUEUES).step_by(AT_ONCE) {
        let item = |n: usize| json!({ "queue": format!("many-{n:05}"), "payload": n });
        let items: Vec<Value> = (start..start + AT_ONCE).map(item).collect();
        api.post("/api/v1/push", &json!({ "items": items }))?;
    }
    let more: Vec<Value> = (0..50).map(|n| json!({ "queue": "many-07777", "payload": n })).collect();
    api.post("/api/v1/push", &json!({ "items": more }))?;

    page.load("/queues")?;
    page.until("document.querySelector('.sub').innerText.startsWith('10')")?;
    let drawn = page.eval("document.querySelectorAll('.vrow').length")?;
    ensure!(drawn.as_u64() < Some(60), "only what is in view is drawn: {drawn}");
    // Far down, where nothing was fetched yet.
    page.eval("document.querySelector('.vlist').scrollTop = 1e9")?;
    page.until("document.querySelector('[data-queue=\"many-09999\"]')")?;
    page.click("[data-sort=pending]")?;
    page.until("document.querySelector('.vlist').scrollTop === 0")?;
    page.until("[...document.querySelectorAll('.vrow')].slice(0, 6).some((row) => row.dataset.queue === 'many-07777')")?;
    page.judge("queues-many")?;
    page.fill("[data-test=filter]", "many-0777")?;
    page.until("document.querySelectorAll('.vrow').length === 10")?;
    page.fill("[data-test=filter]", "no such queue")?;
    page.until_text("No queue has this in its name")
}
