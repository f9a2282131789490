//! Dead letters.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::page::Page;
use crate::server::Api;

/// Numbers that a browser would change if it read them.
const EXACT: &str = r#""id":9007199254740993,"price":1.50,"large":1E2"#;

/// So many letters in the queue `morgue`.
const LETTERS: usize = 260;

pub(super) fn redrive(page: &mut Page, api: &Api) -> Result<()> {
    page.go("/dead-letters")?;
    page.until_text("card declined")?;
    page.click("tbody tr button")?;
    page.until("document.querySelector('.drawer .json')")?;
    page.judge("dead-letters")?;
    escapes(page)?;
    bury(api)?;
    texts(page)?;
    page.fill("[data-test=queue]", "morgue")?;
    lists(page, LETTERS)?;

    edit(page, api)?;
    one_and_some(page, api)?;
    delete(page, api)?;
    all(page, api)
}

/// Esc closes what is open, and the focus is where it was.
fn escapes(page: &mut Page) -> Result<()> {
    page.until("document.activeElement?.matches('.drawer [data-close]')")?;
    page.escape()?;
    page.until("!document.querySelector('.drawer')")?;
    page.until("document.activeElement?.matches('tbody tr:first-child [data-row]')")?;
    // Also out of a dialog, which closes before what lies below it.
    page.click("tbody tr button")?;
    page.click("[data-test=edit]")?;
    page.until("document.querySelector('dialog[open]')")?;
    page.escape()?;
    page.until("!document.querySelector('dialog') && document.querySelector('.drawer')")?;
    page.escape()?;
    page.until("!document.querySelector('.drawer')")
}

/// Payloads are cut out, laid out and shown without a change of what they say.
fn texts(page: &mut Page) -> Result<()> {
    let failed = page.eval(
        r#"(async () => {
        const place = document.querySelector('script[type=module]').src.replace('app.js', 'components/exact.js');
        const { Exact, piece, pieces, read, spaced } = await import(place);
        const text = '{"a": 9007199254740993, "b":[1.50, -0, {"c":"x,}]\\"{"}], "__proto__": {"z": 1}, "e":{}, "f":[ ], "g":null}';
        const tight = (each) => each.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g).join('');
        const value = read(text);
        const same = [
          [value.a instanceof Exact && value.a.text, '9007199254740993'],
          [value.b[0].text + value.b[1].text, '1.50-0'],
          [value.b[2].c, 'x,}]"{'],
          [Object.keys(value).join(), 'a,b,__proto__,e,f,g'],
          [pieces(text).map(([name]) => name).join(), 'a,b,__proto__,e,f,g'],
          [piece(text, 'b'), '[1.50, -0, {"c":"x,}]\\"{"}]'],
          [piece(text, 'g') + piece(text, 'e'), 'null{}'],
          [pieces('[1, "a,b", {"x":[1,2]}, []]').map(([, each]) => each).join('|'), '1|"a,b"|{"x":[1,2]}|[]'],
          [pieces(' { } ').length + pieces('[]').length, 0],
          [tight(spaced(text)), tight(text)],
          [spaced('{"a":[1,{}]}'), '{\n  "a": [\n    1,\n    {}\n  ]\n}'],
        ];
        return same.filter(([is, wanted]) => is !== wanted).map((pair) => pair.join(' is not '));
        })()"#,
    )?;
    ensure!(failed == json!([]), "{failed}");
    Ok(())
}

/// Messages that consumers give up on.
fn bury(api: &Api) -> Result<()> {
    let item = |n: usize| {
        let place = format!("\"queue\":\"morgue\",\"partition\":\"p{}\",\"transactionId\":\"m{n}\"", n % 4);
        format!("{{{place},\"payload\":{{\"n\":{n},{EXACT}}}}}")
    };
    let items: Vec<String> = (0..LETTERS).map(item).collect();
    api.post_text("/api/v1/push", &format!("{{\"items\":[{}]}}", items.join(",")))?;
    let popped = api.get(&format!("/api/v1/pop/queue/morgue?batch={LETTERS}&partitions=4"))?;
    let acks: Vec<Value> = popped["messages"]
        .as_array()
        .context("messages")?
        .iter()
        .map(|m| json!({ "transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "dlq", "error": "poisoned" }))
        .collect();
    // One at a time: giving up on the first of a lane lets go of the rest.
    for ack in acks {
        api.post("/api/v1/ack", &ack)?;
    }
    let buried = api.get("/api/v1/dlq/count?queue=morgue")?["count"].as_u64();
    ensure!(buried == Some(LETTERS as u64), "{buried:?} are buried");
    Ok(())
}

/// The list shows that so many are left.
fn lists(page: &mut Page, left: usize) -> Result<()> {
    page.until(&format!("document.querySelector('.filters:last-child')?.innerText.includes('of {left}')"))
}

fn left(api: &Api) -> Result<u64> {
    api.get("/api/v1/dlq/count?queue=morgue")?["count"].as_u64().context("count")
}

fn edit(page: &mut Page, api: &Api) -> Result<()> {
    page.click("tbody tr button")?;
    page.until("document.querySelector('.drawer')?.innerText.includes('poisoned')")?;
    for number in ["9007199254740993", "1.50", "1E2"] {
        page.until(&format!("document.querySelector('.drawer .json').innerText.includes('{number}')"))?;
    }
    page.click("[data-test=edit]")?;
    page.until("document.querySelector('[data-test=edit-payload]')")?;
    page.shot("edit-light")?;
    // Something is put before what is there; the rest stays as it was pushed.
    page.eval(
        "(() => { const box = document.querySelector('[data-test=edit-payload]'); box.value = box.value.replace('{', '{ \"mended\": true,'); })()",
    )?;
    page.click("[data-test=edit-send]")?;
    page.until("!document.querySelector('dialog') && !document.querySelector('.drawer')")?;
    let newest = api.get_text("/api/v1/messages?queue=morgue&limit=1")?;
    let written: String = newest.split_whitespace().collect();
    ensure!(written.contains("\"mended\":true"), "{newest}");
    ensure!(written.contains(EXACT), "numbers are not rounded on the way: {newest}");
    // What is no JSON is not sent.
    page.click("tbody tr button")?;
    page.click("[data-test=edit]")?;
    page.fill("[data-test=edit-payload]", "{\"mended\": tru}")?;
    page.click("[data-test=edit-send]")?;
    page.until("document.querySelector('dialog .error-text').innerText.includes('no JSON')")?;
    page.escape()?;
    page.escape()?;
    page.until("!document.querySelector('.drawer')")?;
    ensure!(left(api)? == LETTERS as u64 - 1, "the letter is gone");
    Ok(())
}

fn one_and_some(page: &mut Page, api: &Api) -> Result<()> {
    lists(page, LETTERS - 1)?;
    page.click("tbody tr button")?;
    page.click("[data-test=redrive-one]")?;
    page.until("!document.querySelector('.drawer')")?;
    ensure!(left(api)? == LETTERS as u64 - 2, "one went back");
    lists(page, LETTERS - 2)?;
    for row in 1..=3 {
        page.click(&format!("tbody tr:nth-child({row}) [data-test=pick]"))?;
    }
    page.until("document.querySelector('[data-test=redrive-some]').innerText.includes('3')")?;
    page.click("[data-test=redrive-some]")?;
    page.until("document.querySelector('[data-test=redrive-some]').disabled")?;
    page.until_text("3 dead letters sent back")?;
    ensure!(left(api)? == LETTERS as u64 - 5, "three went back");
    Ok(())
}

fn delete(page: &mut Page, api: &Api) -> Result<()> {
    lists(page, LETTERS - 5)?;
    let before = api.get("/api/v1/messages?queue=morgue")?["total"].clone();
    page.click("tbody tr button")?;
    page.click("[data-test=delete]")?;
    page.until("!document.querySelector('.drawer')")?;
    ensure!(left(api)? == LETTERS as u64 - 6, "it is deleted");
    ensure!(api.get("/api/v1/messages?queue=morgue")?["total"] == before, "and went nowhere");
    Ok(())
}

/// Stopped after a step, and then to the end.
fn all(page: &mut Page, api: &Api) -> Result<()> {
    let begin = |page: &mut Page| -> Result<()> {
        page.click("[data-test=redrive-all]")?;
        page.until(
            "document.querySelector('[data-test=redrive-state]')?.innerText.includes('fit the filter')",
        )
    };
    lists(page, LETTERS - 6)?;
    let before = left(api)?;
    begin(page)?;
    page.shot("redrive-light")?;
    // Pressed twice: the second press stops it after the step under way.
    page.eval(
        "(() => { const b = document.querySelector('[data-test=redrive-start]'); b.click(); b.click(); })()",
    )?;
    page.until("!document.querySelector('dialog')")?;
    page.until_text("Stopped: 200 sent back")?;
    ensure!(left(api)? == before - 200, "it was stopped");
    begin(page)?;
    page.click("[data-test=redrive-start]")?;
    page.until("!document.querySelector('dialog')")?;
    page.until_text("No dead letter fits")?;
    ensure!(left(api)? == 0, "all went back");
    Ok(())
}
