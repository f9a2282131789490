//! Consumer groups: sent elsewhere after a look at what that would do, and deleted.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::page::Page;
use crate::server::Api;

pub(super) fn seek(page: &mut Page, api: &Api) -> Result<()> {
    let items: Vec<_> = (0..12)
        .map(|n| json!({ "queue": "replay", "partition": format!("p{}", n % 3), "payload": { "n": n } }))
        .collect();
    api.post("/api/v1/push", &json!({ "items": items }))?;
    let read =
        api.get("/api/v1/pop/queue/replay?consumerGroup=reader&batch=100&partitions=9&autoAck=true")?;
    ensure!(read["messages"].as_array().context("messages")?.len() == 12, "{read}");
    let behind = |api: &Api| -> Result<u64> {
        api.get("/api/v1/resources/queues/replay/depth?group=reader")?["pending"].as_u64().context("pending")
    };
    ensure!(behind(api)? == 0, "the group has read everything");

    page.go("/groups/reader")?;
    page.click("[data-test=seek]")?;
    page.until(
        "document.querySelector('[data-test=seek-preview]').innerText.includes('12 messages in 3 lanes')",
    )?;
    ensure!(behind(api)? == 0, "a look changes nothing");
    page.choose("[data-test=seek-to]", "end")?;
    page.until(
        "document.querySelector('[data-test=seek-preview]').innerText.includes('0 messages in 0 lanes')",
    )?;
    page.choose("[data-test=seek-to]", "time")?;
    page.until(
        "document.querySelector('[data-test=seek-preview]').innerText.includes('12 messages in 3 lanes')",
    )?;
    page.judge("seek")?;
    page.click("[data-test=seek-do]")?;
    page.until("!document.querySelector('dialog')")?;
    ensure!(behind(api)? == 12, "it was sent back");

    page.click("[data-test=delete-group]")?;
    page.fill("[data-test=confirm-name]", "reader")?;
    page.click("[data-test=confirm]")?;
    page.until("location.hash === '#/groups'")?;
    let gone = api.get("/api/v1/consumer-groups/reader")?;
    ensure!(gone == json!({}), "{gone}");
    Ok(())
}
