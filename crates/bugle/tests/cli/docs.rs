//! The documents are true: every command in them is run as a reader would, or stands in the list of those that cannot be, with the
//! reason; settings of other programs are checked by those; every command of ours is described, and no other.

mod commands;
mod documents;
mod list;
mod proxies;
mod reader;

use crate::help;
use crate::support::On;
use documents::{Block, Document, all, document};
use list::{INSTEAD, NOT_RUN};
use reader::Reader;

/// What blocks may be written in, and nothing else: one without a language would not be looked at.
const LANGUAGES: [&str; 11] =
    ["sh", "sql", "python", "js", "rust", "yaml", "toml", "ini", "nginx", "haproxy", "text"];

#[test]
fn every_command_is_described_and_no_other() {
    // Lines end where there is room, which says nothing.
    let page = document("docs/cli.md").text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all: Vec<String> =
        help::all().into_iter().map(|words| words.join(" ")).filter(|name| !name.is_empty()).collect();
    // What the load generator measures is described in bench/.
    for name in all.iter().filter(|name| !name.starts_with("bench ")) {
        assert!(page.contains(&format!("bugle {name}")), "bugle {name} is not in docs/cli.md");
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_tried() {
    for document in all() {
        for block in document.blocks() {
            let known = LANGUAGES.contains(&block.language.as_str());
            // Maps and formats are drawn without a language, where nobody looks for commands.
            let drawn = block.language.is_empty() && !looks_like_a_command(&block);
            let free = drawn && (document.name.contains("decisions") || document.name.contains("format"));
            assert!(known || free, "{}:{}: a block of {:?}", document.name, block.line, block.language);
        }
        let indented = document.indented();
        assert!(indented.is_empty(), "{}: use a fence for {indented:?}", document.name);
    }
}

fn looks_like_a_command(block: &Block) -> bool {
    let programs = ["bugle", "curl", "cargo", "docker", "kubectl", "psql", "systemctl", "apt-get", "$"];
    block.text.lines().any(|line| programs.contains(&line.split(' ').next().unwrap_or_default()))
}

#[test]
fn every_entry_of_the_list_is_needed_and_says_why() {
    for entry in INSTEAD {
        let blocks = document(entry.file).blocks();
        let used = blocks.iter().any(|block| block.text.contains(entry.written));
        assert!(used && !entry.why.is_empty(), "{} no longer has {:?}", entry.file, entry.written);
    }
    for entry in NOT_RUN {
        let document = document(entry.file);
        let block = document.blocks().iter().any(|block| block.text.starts_with(entry.begins));
        let span = document.spans().iter().any(|span| span.starts_with(entry.begins));
        assert!((block || span) && !entry.why.is_empty(), "{} no longer has {:?}", entry.file, entry.begins);
    }
}

/// Everything of one document, one after the other in one place.
async fn follow(name: &str, on: On) {
    let document = document(name);
    let reader = Reader::new(on, &document).await;
    tokio::task::spawn_blocking(move || {
        prepare(&reader, &document);
        for block in document.blocks() {
            tried(&reader, &document, &block);
        }
    })
    .await
    .unwrap();
}

/// What a document takes for granted: a database in use, where it does not make one itself.
fn prepare(reader: &Reader, document: &Document) {
    let blocks = document.blocks();
    let stores = blocks.iter().any(|block| block.text.contains("postgres://"));
    if stores && !document.text.contains("CREATE ROLE bugle") {
        let made = "CREATE ROLE bugle LOGIN PASSWORD 'secret'; \n CREATE DATABASE bugle OWNER bugle;";
        reader.sql(made).ok();
        let serve = format!("bugle serve --store postgres://bugle:secret@{}/bugle", reader.database());
        reader.shell(&serve).ok();
    }
}

fn tried(reader: &Reader, document: &Document, block: &Block) {
    if NOT_RUN.iter().any(|entry| entry.file == document.name && block.text.starts_with(entry.begins)) {
        return;
    }
    let text = reader.here(&document.name, &block.text);
    let ran = match block.language.as_str() {
        "sh" => reader.shell(&text),
        "sql" => reader.sql(&text),
        "python" => reader.interpret(&["python3", "-"], &text),
        "js" => reader.interpret(&["node", "--input-type=module", "-"], &text),
        "ini" => return proxies::pools(reader, &text),
        "nginx" => return proxies::nginx(reader, &text),
        "haproxy" => return proxies::haproxy(reader, &text),
        "yaml" => return proxies::yaml(reader, &text),
        // The same program stands in the description of the crate, which compiles it.
        "rust" => return assert!(compiled(&block.text), "{}:{}", document.name, block.line),
        "text" | "" => return,
        other => panic!("{}:{}: nobody tries {other}", document.name, block.line),
    };
    assert_eq!(ran.status, 0, "{}:{}\n{text}\n{ran:?}", document.name, block.line);
    let expected = expected(&document.name, &block.language);
    assert!(expected.is_none_or(|wanted| ran.out == wanted), "{}:{}\n{ran:?}", document.name, block.line);
}

/// What a program of a document prints.
fn expected(file: &str, language: &str) -> Option<&'static str> {
    match (file, language) {
        ("docs/consuming.md", "python") => Some("a 0\na 1\na 2\n"),
        ("docs/consuming.md", "js") => Some("a { n: 1 }\na { n: 2 }\na { n: 3 }\n"),
        _ => None,
    }
}

/// Whether every line of a program is one of the client's own description, indented or not.
fn compiled(text: &str) -> bool {
    let described = document("crates/bugle-client/README.md").text;
    let lines: Vec<&str> = described.lines().map(str::trim).collect();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).all(|line| lines.contains(&line))
}

macro_rules! followed {
    ($($name:ident: $file:literal)*) => {
        $(#[tokio::test] async fn $name() { follow($file, On::embedded()).await })*

        /// Where the rest is looked at, too.
        const FOLLOWED: &[&str] = &[$($file),*];
    };
}

followed! {
    the_readme: "README.md"
    backup: "docs/backup.md"
    the_command_line: "docs/cli.md"
    concepts: "docs/concepts.md"
    consuming: "docs/consuming.md"
    high_availability: "docs/high-availability.md"
    postgres: "docs/postgres.md"
    behind_proxies: "docs/proxies.md"
    security: "docs/security.md"
    telemetry: "docs/telemetry.md"
}

/// Guides that another test follows, with that test.
const FOLLOWED_ELSEWHERE: &[(&str, &str)] = &[("docs/inbox.md", "tests/blackbox/inbox_guide.rs")];

/// What does not depend on where messages are kept, on the other engine.
#[tokio::test]
async fn on_a_database() {
    for name in ["README.md", "docs/concepts.md", "docs/consuming.md"] {
        follow_commands(name, On::postgres().await).await;
    }
}

/// Those of a document that speak to a server; files of an embedded store are not there.
async fn follow_commands(name: &str, on: On) {
    let mut document = document(name);
    if let Some((head, _)) = document.text.split_once("bugle backup --to") {
        document.text = format!("{head}```\n");
    }
    let reader = Reader::new(on, &document).await;
    let run = move || document.blocks().iter().for_each(|block| tried(&reader, &document, block));
    tokio::task::spawn_blocking(run).await.unwrap();
}

#[test]
fn every_document_with_a_block_is_followed() {
    for document in all() {
        let has = |block: &Block| {
            let listed = NOT_RUN
                .iter()
                .any(|entry| entry.file == document.name && block.text.starts_with(entry.begins));
            !matches!(block.language.as_str(), "" | "text") && !listed
        };
        let elsewhere = |(file, by): &(&str, &str)| {
            let by = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(by);
            *file == document.name && std::fs::read_to_string(by).is_ok_and(|test| test.contains(file))
        };
        let followed = FOLLOWED.contains(&document.name.as_str()) || FOLLOWED_ELSEWHERE.iter().any(elsewhere);
        assert!(followed || !document.blocks().iter().any(has), "nobody follows {}", document.name);
    }
}
