//! The message browser.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::page::Page;
use crate::server::Api;

pub(super) fn browse(page: &mut Page, api: &Api) -> Result<()> {
    let payload = json!({ "deep": { "deeper": { "deepest": [1, 2, { "found": true }] } }, "text": "<b>not markup</b>" });
    let items = json!({ "items": [
        { "queue": "desk", "partition": "p", "transactionId": "first", "payload": payload },
        { "queue": "desk", "partition": "p", "transactionId": "second", "payload": 2 },
    ] });
    let lane = api.post("/api/v1/push", &items)?[0]["partition_id"].clone();
    let trace = json!({ "transactionId": "first", "partitionId": lane, "eventType": "info", "traceNames": ["desk"], "data": { "text": "seen" } });
    api.post("/api/v1/traces", &trace)?;
    // A group that has met the lane and is done with nothing.
    let popped = api.get("/api/v1/pop/queue/desk?consumerGroup=clerk&batch=1")?;
    let back = json!({ "transactionId": "first", "partitionId": lane, "leaseId": popped["leaseId"], "consumerGroup": "clerk", "status": "retry" });
    api.post("/api/v1/ack", &back)?;

    page.go("/messages")?;
    page.fill("[data-test=queue]", "desk")?;
    page.until("document.querySelectorAll('tbody tr').length === 2")?;
    page.click("tbody tr:nth-child(2) button")?;
    page.until("document.querySelector('.drawer .json')")?;
    page.until_text("<b>not markup</b>")?;
    // What is deep is folded, and opens.
    ensure!(
        page.eval("document.querySelector('.json').innerText.includes('found')")? == false,
        "deep parts are folded"
    );
    page.eval("document.querySelectorAll('.json details:not([open]) > summary').forEach((e) => e.click())")?;
    page.until("(document.querySelectorAll('.json details:not([open]) > summary').forEach((e) => e.click()), document.querySelector('.json').innerText.includes('found'))")?;
    page.until("document.querySelector('.drawer ol.line li').innerText.includes('seen')")?;
    page.judge("messages")?;

    page.click("[data-test=give-up]")?;
    page.fill("[data-test=reason]", "the clerk cannot read it")?;
    page.click("[data-test=confirm-give-up]")?;
    page.until("document.querySelector('.drawer')?.innerText.includes('the clerk cannot read it')")?;
    let letters = api.get("/api/v1/dlq?queue=desk")?;
    ensure!(
        letters["total"] == 1 && letters["messages"][0]["errorMessage"] == "the clerk cannot read it",
        "{letters}"
    );

    page.click("[data-test=retry]")?;
    page.until_text("Sent back")?;
    ensure!(api.get("/api/v1/dlq?queue=desk")?["total"] == 0, "the letter went back");
    ensure!(api.get("/api/v1/messages?queue=desk")?["total"] == 3, "as a new message");

    page.choose("[data-test=status]", "dead_letter")?;
    page.until("document.querySelectorAll('tbody tr').length === 0")
}
