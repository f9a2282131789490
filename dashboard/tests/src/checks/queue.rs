//! What can be done to a queue.

use anyhow::{Result, ensure};

use crate::page::Page;
use crate::server::Api;

pub(super) fn everything(page: &mut Page, api: &Api) -> Result<()> {
    push(page, api)?;
    options(page, api)?;
    pause(page, api)?;
    clear(page, api)?;
    delete(page, api)
}

fn push(page: &mut Page, api: &Api) -> Result<()> {
    page.go("/queues")?;
    page.click("[data-test=push]")?;
    page.fill("[data-test=push-queue]", "by-hand")?;
    page.fill("[data-test=push-id]", "hand-1")?;
    page.fill("[data-test=push-payload]", "{\"n\": 1, \"big\": 12345678901234567890")?;
    page.click("[data-test=push-send]")?;
    page.until("document.querySelector('dialog .error-text').innerText.includes('no JSON')")?;
    page.fill("[data-test=push-payload]", "{\"n\": 1, \"big\": 12345678901234567890}")?;
    page.shot("push-light")?;
    page.click("[data-test=push-send]")?;
    page.until("!document.querySelector('dialog')")?;
    page.until("document.querySelector('[data-queue=by-hand]')")?;
    let listed = api.get("/api/v1/messages?queue=by-hand")?;
    ensure!(listed["messages"][0]["transactionId"] == "hand-1", "{listed}");
    ensure!(
        listed.to_string().contains("12345678901234567890"),
        "numbers are not rounded on the way: {listed}"
    );
    page.click("[data-queue=by-hand]")?;
    page.until("document.querySelector('#options form')")
}

fn options(page: &mut Page, api: &Api) -> Result<()> {
    page.fill("[data-option=leaseTime]", "77")?;
    page.fill("[data-option=minPopWaitTime]", "99999999")?;
    page.click("[data-option=encryptionEnabled]")?;
    page.click("[data-option=encryptionEnabled]")?;
    page.click("[data-test=save-options]")?;
    page.until("document.querySelector('[data-option=minPopWaitTime]').value === '60000'")?;
    let options = &api.get("/api/v1/resources/queues/by-hand")?["options"];
    ensure!(options["leaseTime"] == 77 && options["minPopWaitTime"] == 60_000, "{options}");
    ensure!(options["retryLimit"] == 3, "what was not changed stays: {options}");
    page.fill("[data-option=minPopWaitTime]", "0")?;
    page.click("[data-test=save-options]")?;
    page.until("document.querySelector('[data-option=minPopWaitTime]').value === '0'")
}

fn pause(page: &mut Page, api: &Api) -> Result<()> {
    let pop = "/api/v1/pop/queue/by-hand?consumerGroup=g&wait=true&timeout=300";
    page.click("[data-test=pause]")?;
    page.until("document.querySelector('[data-test=pause]').innerText === 'Resume'")?;
    ensure!(api.get(pop)?.is_null(), "a paused queue delivers nothing");
    page.click("[data-test=pause]")?;
    page.until("document.querySelector('[data-test=pause]').innerText === 'Pause'")?;
    ensure!(api.get(pop)?["messages"][0]["transactionId"] == "hand-1", "it delivers again");
    Ok(())
}

fn clear(page: &mut Page, api: &Api) -> Result<()> {
    page.click("[data-test=clear]")?;
    page.fill("[data-test=confirm-name]", "by-han")?;
    ensure!(
        page.eval("document.querySelector('[data-test=confirm]').disabled")? == true,
        "the name must be typed"
    );
    page.fill("[data-test=confirm-name]", "by-hand")?;
    page.shot("confirm-light")?;
    page.click("[data-test=confirm]")?;
    page.until("!document.querySelector('dialog')")?;
    ensure!(api.get("/api/v1/resources/queues/by-hand")?["totals"]["total"] == 0, "it is empty");
    Ok(())
}

fn delete(page: &mut Page, api: &Api) -> Result<()> {
    page.click("[data-test=delete]")?;
    page.fill("[data-test=confirm-name]", "by-hand")?;
    page.click("[data-test=confirm]")?;
    page.until("location.hash.startsWith('#/queues') && !location.hash.includes('by-hand')")?;
    ensure!(api.get("/api/v1/resources/queues?search=by-hand")?["total"] == 0, "it is gone");
    Ok(())
}
