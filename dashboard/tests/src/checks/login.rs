//! Signing in, on a server that asks for credentials.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::page::Page;
use crate::server::Server;

const KEYS: &str = "admin:admin:s3cret-s3cret-s3cret-1,looker:read-only:s3cret-s3cret-s3cret-2,feeder:write-only:s3cret-s3cret-s3cret-3";

pub(crate) fn signs_in(page: &mut Page, program: &Path) -> Result<()> {
    let server =
        Server::start(program, &[&format!("--api-keys={KEYS}")], &page.shots().join("server-keys.log"))?;
    page.turn_to(server.url())?;
    page.load("/queues")?;
    page.until_text("Sign in to Bugle")?;
    page.judge("login")?;
    for (key, told) in [("nonsense", "not accepted"), ("s3cret-s3cret-s3cret-3", "may not read")] {
        page.fill("[data-test=token]", key)?;
        page.click("[data-test=sign-in]")?;
        page.until(&format!("document.querySelector('.error-text').innerText.includes('{told}')"))?;
    }
    page.fill("[data-test=token]", "s3cret-s3cret-s3cret-2")?;
    page.click("[data-test=sign-in]")?;
    page.until("document.querySelector('h1')?.innerText === 'Queues'")?;
    page.until("document.querySelector('.pulse.on')")?;
    // Who may only look is told so.
    page.click("[data-test=push]")?;
    page.fill("[data-test=push-queue]", "q")?;
    page.click("[data-test=push-send]")?;
    page.until("document.querySelector('dialog .error-text').innerText.includes('permissions')")?;
    page.eval("document.querySelector('dialog').close()")?;
    let kept =
        page.eval("[sessionStorage.length, Object.keys(localStorage).some((k) => k.includes('token'))]")?;
    ensure!(kept[0] == 1 && kept[1] == false, "the key is kept for this tab alone: {kept}");
    page.click("[aria-label='Sign out']")?;
    page.until_text("Sign in to Bugle")?;
    ensure!(server.api().get("/api/v1/resources/overview").is_err(), "nobody reads without a key");
    server.api().with_key("s3cret-s3cret-s3cret-1").get("/api/v1/resources/overview")?;
    let seen = page.settle("signing in");
    // The refusals above are told by the browser.
    if let Err(error) = &seen {
        ensure!(error.to_string().contains("status of 403"), "{error}");
    }
    Ok(())
}
