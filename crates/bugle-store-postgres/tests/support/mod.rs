//! What tests of this engine share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod counted;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Stands between a store and its server, and counts what the store sends: statements executed, and round trips.
#[derive(Default)]
pub struct Counter {
    statements: AtomicUsize,
    round_trips: AtomicUsize,
}

impl Counter {
    /// A counter before the server at `dsn`, and the address to use instead.
    pub async fn before(dsn: &str) -> (Arc<Self>, String) {
        let place = dsn.split('@').next_back().and_then(|s| s.split('/').next()).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counter = Arc::new(Self::default());
        let counting = counter.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(counting.clone().carry(client, place.clone()));
            }
        });
        (counter, format!("postgres://postgres@{address}/postgres?sslmode=disable"))
    }

    /// Statements and round trips since the last call.
    pub fn take(&self) -> (usize, usize) {
        (self.statements.swap(0, Ordering::SeqCst), self.round_trips.swap(0, Ordering::SeqCst))
    }

    async fn carry(self: Arc<Self>, client: TcpStream, place: String) {
        let server = TcpStream::connect(place).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        // The first message has no kind.
        let mut kind = None;
        loop {
            let Ok(len) = from_client.read_u32().await else { return };
            let mut body = vec![0; len as usize - 4];
            from_client.read_exact(&mut body).await.unwrap();
            self.count(kind);
            let mut message: Vec<u8> = kind.into_iter().collect();
            message.extend_from_slice(&len.to_be_bytes());
            message.extend_from_slice(&body);
            if to_server.write_all(&message).await.is_err() {
                return;
            }
            let Ok(next) = from_client.read_u8().await else { return };
            kind = Some(next);
        }
    }

    /// Execute or Query is a statement; Sync or Query is what an answer is waited for.
    fn count(&self, kind: Option<u8>) {
        if matches!(kind, Some(b'E' | b'Q')) {
            self.statements.fetch_add(1, Ordering::SeqCst);
        }
        if matches!(kind, Some(b'S' | b'Q')) {
            self.round_trips.fetch_add(1, Ordering::SeqCst);
        }
    }
}
