//! A server on which nothing becomes durable for a while: what a commit that waits can be told by, and one that does not.

use std::process::Command;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use super::PrivateServer;

/// A commit that takes longer is taken to be held.
const HELD: Duration = Duration::from_millis(400);

/// Something to make durable.
const COMMIT: &str = "SELECT pg_logical_emit_message(true, 'test', '')";

impl PrivateServer {
    /// A connection of the caller's own.
    pub async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.address, NoTls).await.expect("connect");
        tokio::spawn(connection);
        client
    }

    /// From now on commits wait for a standby that is not there; they are on this server's own disk.
    pub async fn hold_commits(&self) {
        self.standbys("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
        while !self.is_held().await {}
    }

    /// Commits that wait go on.
    pub async fn release_commits(&self) {
        self.standbys("ALTER SYSTEM RESET synchronous_standby_names").await;
    }

    async fn standbys(&self, sql: &str) {
        let client = self.client().await;
        client.batch_execute(sql).await.expect("changed");
        client.batch_execute("SELECT pg_reload_conf()").await.expect("reloaded");
    }

    /// From now on the log goes to no disk, until the server is stopped without waiting for it: who writes it is held up while nobody
    /// else may. Only with fsync, see [`super::durable_server`].
    pub async fn hold_log(&self) {
        loop {
            let client = self.client().await;
            let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("told").get(0);
            // A tenth of a second in which it may be caught.
            let slow = "SET commit_delay = 100000; SET commit_siblings = 0";
            client.batch_execute(slow).await.expect("set");
            tokio::spawn(async move { client.batch_execute(COMMIT).await });
            tokio::time::sleep(Duration::from_millis(30)).await;
            signal("-STOP", pid);
            if self.is_held().await {
                return;
            }
            signal("-CONT", pid);
        }
    }

    async fn is_held(&self) -> bool {
        let client = self.client().await;
        tokio::time::timeout(HELD, client.batch_execute(COMMIT)).await.is_err()
    }
}

fn signal(kind: &str, pid: i32) {
    let sent = Command::new("kill").args([kind, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {kind} {pid}");
}
