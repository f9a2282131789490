//! The `doctor` command: exit status, text and JSON, on files and on a database.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{On, Sql, command};

fn doctor(on: &On, more: &[&str]) -> Output {
    let mut command = command(on.dir());
    command.arg("doctor").args(on.place()).args(more);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn told(on: &On) -> (Value, i32) {
    let output = doctor(on, &["--json"]);
    let told =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    (told, output.status.code().unwrap())
}

/// Change one byte in the middle of the first record of the newest log file that has one.
fn damage(dir: &Path) -> String {
    let mut logs: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    for path in logs.iter() {
        let mut bytes = std::fs::read(path).unwrap();
        if bytes[4096..].starts_with(b"BGLR") {
            bytes[4096 + 70] ^= 1;
            std::fs::write(path, bytes).unwrap();
            return path.file_name().unwrap().to_str().unwrap().to_owned();
        }
    }
    panic!("no record in {}", dir.display())
}

#[tokio::test]
async fn a_data_directory_is_looked_over() {
    let on = On::embedded();
    let server = on.start().await;
    server.push_ids("q", "p", &["1", "2", "3"]).await;
    assert_eq!(told(&on).1, 2, "a server runs there");
    assert!(text(&doctor(&on, &[]).stdout).contains("a server uses it"));
    assert!(server.terminate().await.success());
    let (fine, code) = told(&on);
    assert_eq!((code, &fine["verdict"]), (0, &"fine".into()), "{fine}");
    let messages: u64 = fine["facts"]["messages"].as_str().unwrap().parse().unwrap();
    assert!(messages >= 3, "these and the server's own: {fine}");
    let name = damage(&on.data_dir().unwrap());
    let (damaged, code) = told(&on);
    assert_eq!((code, &damaged["verdict"]), (1, &"damaged".into()));
    assert_eq!(damaged["findings"][0]["place"], format!("{name} at 4096"), "{damaged}");
    let shown = text(&doctor(&on, &[]).stdout);
    assert!(shown.contains(&format!("damage: {name} at 4096: ")) && shown.ends_with("damaged\n"), "{shown}");
}

#[tokio::test]
async fn a_schema_is_looked_over_while_servers_run() {
    let on = On::postgres().await;
    assert_eq!(told(&on).1, 2, "there is no schema yet");
    let server = on.start().await;
    server.push_ids("q", "p", &["1", "2", "3"]).await;
    server.push_ids("q", "p", &["4"]).await;
    let popped = server.pop_some("/queue/q?batch=2").await;
    server.ack_all(&popped, "completed").await;
    let (fine, code) = told(&on);
    assert_eq!(
        (code, &fine["facts"]["messages"], &fine["facts"]["cursors"]),
        (0, &"4".into(), &"1".into()),
        "{fine}"
    );
    let mut sql = Sql::to(&on).await;
    sql.run("DELETE FROM {schema}.segments WHERE base = 3").await;
    let (damaged, code) = told(&on);
    assert_eq!((code, &damaged["verdict"]), (1, &"damaged".into()), "{damaged}");
    assert!(damaged.to_string().contains("the message at 3 is in no segment"), "{damaged}");
}

#[tokio::test]
async fn what_cannot_be_reached_cannot_be_told() {
    let on = On::database("postgres://postgres@127.0.0.1:1/postgres", &[]);
    let (told, code) = told(&on);
    assert_eq!((code, &told["verdict"]), (2, &"cannot tell".into()), "{told}");
    let output = doctor(&On::embedded(), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let mut wrong = command(on.dir());
    wrong.args(["doctor", "--store-file", "nowhere"]);
    assert_eq!(wrong.output().unwrap().status.code(), Some(2));
}
