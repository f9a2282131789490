//! What the log says of a request.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bugle_broker::{Broker, BrokerConfig};
use bugle_http::{HttpConfig, ServeConfig, router};
use bugle_store::MemoryStore;

use crate::client::Server;

/// Keeps what is written.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    /// Keep all lines while the guard lives. The runtime of these tests has one thread, so all of the server runs under
    /// it.
    pub(crate) fn everything(filter: &str) -> (Self, tracing::subscriber::DefaultGuard) {
        let kept = Self::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        let guard = tracing::subscriber::set_default(log.with_writer(move || writer.clone()).finish());
        (kept, guard)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Lines of the log after one waiting pop that ended empty.
async fn lines(filter: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let (kept, _guard) = Kept::everything(filter);
    let broker = Broker::open(Arc::new(MemoryStore::new()), BrokerConfig::default()).await.unwrap();
    let server = Server::start(router(broker, HttpConfig::default()), ServeConfig::default()).await;
    let answer = server.send_with("GET", "/api/v1/pop/queue/q?wait=true&timeout=20", headers, "").await;
    assert_eq!(answer.status, 204);
    kept.lines()
}

#[tokio::test]
async fn debug_lines_of_a_pop_carry_the_id_of_its_request() {
    for filter in ["debug", "info,bugle_broker=debug"] {
        let lines = lines(filter, &[("x-request-id", "mine-7")]).await;
        for event in ["waiting pop registered", "waiting pop expired"] {
            let line = lines.iter().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{lines:#?}"));
            assert!(line.contains("request{id=mine-7}"), "{line}");
        }
    }
}

#[tokio::test]
async fn a_request_without_an_id_is_given_one() {
    let lines = lines("debug", &[]).await;
    let line = lines.iter().find(|line| line.contains("waiting pop registered")).expect("a line");
    let id = line.split_once("request{id=").expect("an id").1.split_once('}').expect("its end").0;
    assert_eq!(id.len(), 16, "{line}");
}
