//! A standby of a private server, to be promoted: what a failover is made of.

use std::process::Stdio;

use super::{PrivateServer, Stop, binaries, free_port, fresh_schema, launch, ready, unprivileged};

impl PrivateServer {
    /// A standby that follows this server by streaming, as `application_name` "standby".
    pub async fn standby(&self) -> PrivateServer {
        let (owner, dir) = (std::process::id(), std::env::temp_dir().join(fresh_schema()));
        std::fs::create_dir_all(&dir).expect("create a temporary directory");
        let port = free_port();
        let script = format!(
            "umask 077
{bin}/pg_basebackup -D {dir}/data -R -X stream -c fast -d '{primary} application_name=standby' >>{dir}/log 2>&1 || exit 1
{bin}/postgres -D {dir}/data -p {port} -k {dir} -h 127.0.0.1 -c fsync=off -c max_connections=300 \\
  -c log_min_messages=fatal >>{dir}/log 2>&1 &
child=$!
until {bin}/pg_isready -q -h 127.0.0.1 -p {port}; do kill -0 $child || exit 1; sleep 0.05; done
echo 'postgres://postgres@127.0.0.1:{port}/postgres?sslmode=prefer' >{dir}/ready
tail --pid={owner} -s 0.2 -f /dev/null
{bin}/pg_ctl -D {dir}/data -m immediate stop >>{dir}/log 2>&1; rm -rf {dir}",
            bin = binaries().display(),
            dir = dir.display(),
            primary = self.keywords(),
        );
        launch(&dir, &script);
        PrivateServer { address: ready(&dir).await, dir }
    }

    /// Make a standby take writes; returns when it does.
    pub async fn promote(&self) {
        self.control(&["promote"]).await;
    }

    /// Stop it, for good or until it is restarted.
    pub async fn stop(&self, stop: Stop) {
        self.control(&["stop", "-m", if stop == Stop::Fast { "fast" } else { "immediate" }]).await;
    }

    /// Host and port as words.
    fn keywords(&self) -> String {
        let place = self.address.split('@').next_back().and_then(|s| s.split('/').next()).unwrap_or_default();
        let (host, port) = place.split_once(':').unwrap_or((place, "5432"));
        format!("host={host} port={port} user=postgres")
    }

    async fn control(&self, words: &[&str]) {
        let mut command = unprivileged(binaries().join("pg_ctl").as_os_str());
        command.args(words).arg("-D").arg(self.dir.join("data")).args(["-s", "-w", "-t", "120"]);
        command.current_dir(&self.dir).stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.status()).await.expect("wait for pg_ctl");
        assert!(done.is_ok_and(|status| status.success()), "pg_ctl {words:?}");
    }
}
