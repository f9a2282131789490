//! The message browser.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::page::Page;
use crate::server::Api;

/// The trace that a message belongs to.
const TRACED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A number that is another one when a browser has read it.
const LARGE: u64 = (1 << 53) + 1;

pub(super) fn browse(page: &mut Page, api: &Api) -> Result<()> {
    let payload = json!({ "deep": { "deeper": { "deepest": [1, 2, { "found": true }] } }, "text": "<b>not markup</b>", "id": LARGE });
    let items = json!({ "items": [
        { "queue": "desk", "partition": "p", "transactionId": "first", "payload": payload, "traceparent": TRACED },
        { "queue": "desk", "partition": "p", "transactionId": "second", "payload": 2 },
    ] });
    let lane = api.post("/api/v1/push", &items)?[0]["partition_id"].clone();
    let trace = json!({ "transactionId": "first", "partitionId": lane, "eventType": "info", "traceNames": ["desk"], "data": { "text": "seen", "id": LARGE } });
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
    page.until(&format!(
        "[...document.querySelectorAll('.drawer dt')].some((name) => name.textContent === 'Trace context' && name.nextElementSibling.textContent === '{TRACED}')"
    ))?;
    // What is deep is folded, and opens.
    ensure!(
        page.eval("document.querySelector('.json').innerText.includes('found')")? == false,
        "deep parts are folded"
    );
    page.eval("document.querySelectorAll('.json details:not([open]) > summary').forEach((e) => e.click())")?;
    page.until("(document.querySelectorAll('.json details:not([open]) > summary').forEach((e) => e.click()), document.querySelector('.json').innerText.includes('found'))")?;
    page.until("document.querySelector('.drawer ol.line li').innerText.includes('seen')")?;
    ensure!(large(page)? == 3, "in the list, the payload and the trace");
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
    page.until("document.querySelectorAll('tbody tr').length === 0")?;

    page.go("/traces?name=desk")?;
    page.until("document.querySelectorAll('ol.line li').length === 1")?;
    ensure!(large(page)? == 2, "what was recorded, and the message it is about");
    Ok(())
}

/// How often the number is on the page as it was sent.
fn large(page: &mut Page) -> Result<Value> {
    page.eval(&format!("document.querySelector('main').innerText.split('{LARGE}').length - 1"))
}
