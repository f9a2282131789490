//! Every page with traffic on it, in every look.

use anyhow::{Result, ensure};

use crate::page::Page;
use crate::server::Api;
use crate::traffic::Traffic;

pub(super) fn with_traffic(page: &mut Page, api: &Api) -> Result<()> {
    let traffic = Traffic::start(api)?;
    page.load("/")?;
    // Enough for charts to have a shape.
    page.until("document.querySelectorAll('.tile')[0]?.innerText.match(/[1-9]/)")?;
    page.eval("new Promise((done) => setTimeout(done, 7000))")?;
    page.until_text("orders")?;
    page.judge("overview")?;

    page.go("/queues")?;
    page.until("document.querySelectorAll('.vrow').length >= 6")?;
    page.eval("new Promise((done) => setTimeout(done, 1500))")?;
    page.judge("queues")?;

    filled_at_once(page)?;
    page.go("/queues/orders")?;
    page.until("document.querySelector('#options form')")?;
    page.until_text("billing")?;
    page.judge("queue")?;

    page.go("/waiting")?;
    page.until("document.querySelectorAll('#waiters tbody tr').length >= 2")?;
    page.until("document.querySelectorAll('#served tbody tr').length >= 3")?;
    let who = page.eval("document.querySelector('#waiters tbody tr td').innerText")?;
    ensure!(who.as_str().is_some_and(|who| who.starts_with("127.0.0.1:")), "who waits is told: {who}");
    let woken = page.eval("document.querySelector('#served').innerText.includes('local')")?;
    ensure!(woken == true, "what woke them is told");
    page.judge("waiting")?;

    page.go("/groups")?;
    page.until_text("warehouse")?;
    page.judge("groups")?;
    page.go("/groups/billing")?;
    page.until_text("customer-")?;
    page.judge("group")?;

    page.go("/traces")?;
    page.until_text("capture")?;
    page.go("/traces?name=capture")?;
    page.until("document.querySelectorAll('ol.line li').length > 1")?;
    page.judge("traces")?;

    page.go("/cluster")?;
    page.until_text("Push maintenance")?;
    page.judge("cluster")?;
    traffic.stop();
    Ok(())
}

/// A page that is opened anew shows what was before: the server kept it.
fn filled_at_once(page: &mut Page) -> Result<()> {
    page.load("/queues")?;
    page.until("document.querySelector('[data-queue=orders] svg path.area')")?;
    // At the first event that moves anything, much more than one second is there.
    let seconds = page.eval("document.querySelector('[data-queue=orders] svg path:not(.area, .ground)').getAttribute('d').split('L').length")?;
    ensure!(seconds.as_u64() > Some(5), "the line begins with what was before: {seconds} seconds");
    page.load("/")?;
    page.until("document.querySelectorAll('.tile svg path.area').length > 0")?;
    let seconds = page.eval(
        "document.querySelector('.tile svg path:not(.area, .ground)').getAttribute('d').split('L').length",
    )?;
    ensure!(seconds.as_u64() > Some(5), "so do the tiles: {seconds} seconds");
    Ok(())
}

pub(super) fn maintenance(page: &mut Page, api: &Api) -> Result<()> {
    page.go("/cluster")?;
    for (button, path, field) in [
        ("pop-maintenance", "/api/v1/system/maintenance/pop", "popMaintenanceMode"),
        ("push-maintenance", "/api/v1/system/maintenance", "maintenanceMode"),
    ] {
        let shows = |word: &str| {
            format!(
                "document.querySelector('[data-test={button}]').parentElement.querySelector('.chip').innerText === '{word}'"
            )
        };
        page.until(&shows("off"))?;
        page.click(&format!("[data-test={button}]"))?;
        page.until(&shows("on"))?;
        ensure!(api.get(path)?[field] == true, "{path} is switched on");
        page.click(&format!("[data-test={button}]"))?;
        page.until(&shows("off"))?;
        ensure!(api.get(path)?[field] == false, "{path} is switched off");
    }
    Ok(())
}
