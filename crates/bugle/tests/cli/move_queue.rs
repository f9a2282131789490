//! `bugle move`.

use crate::support::On;

/// From one engine to the other, offline: neither has a server.
async fn between(from: On, to: On) {
    let source = from.start();
    source.push("q", "a", &["1", "2", "3"]);
    source.push("stays", "a", &["4"]);
    source.bugle(&["pop", "q", "-g", "g", "--subscribe", "all", "--ack"]).ok();
    let dir = tempfile::tempdir().unwrap();
    drop(source);
    let mut command = crate::support::program(dir.path());
    let (place_from, place_to) = (from.place(), to.place());
    command.args(["move", "q", "--from", &place_from, "--to", &place_to, "--delete-source", "--yes"]);
    // Only the database has a schema, and a server on files does not mind the setting.
    command.envs(from.schema().or(to.schema()).map(|schema| ("BUGLE_PG_SCHEMA", schema)));
    let told = crate::support::Ran::of(command, "").ok();
    assert!(
        told.contains("3 messages and the positions of 1 groups") && told.contains("deleted at the source"),
        "{told}"
    );
    let (source, target) = (from.start(), to.start());
    source.bugle(&["queue", "describe", "q"]).fails(3);
    assert_eq!(source.payloads("stays", "g"), ["4"]);
    assert_eq!(target.payloads("q", "g"), ["2", "3"], "where it was at the source");
}

#[tokio::test]
async fn from_files_to_a_database() {
    let (from, to) = (On::embedded(), On::postgres().await);
    between(from, to).await;
}

#[tokio::test]
async fn from_a_database_to_files() {
    let (from, to) = (On::postgres().await, On::embedded());
    between(from, to).await;
}

#[test]
fn between_running_servers_it_stays_unless_told_otherwise() {
    let (on, other) = (On::embedded(), On::embedded());
    let (from, to) = (on.start(), other.start());
    from.push("q", "a", &["1"]);
    let told = from.bugle(&["move", "q", "--to", to.url()]).ok();
    assert!(told.contains("kept at the source"), "{told}");
    assert_eq!((from.payloads("q", "g"), to.payloads("q", "g")), (vec!["1".into()], vec!["1".into()]));
    from.bugle(&["move", "q", "--to", to.url(), "--delete-source"]).fails(2);
    let used = from.bugle(&["move", "q", "--to", &on.place()]).fails(1);
    assert!(used.contains("by its URL"), "{used}");
}
