//! A way to the server that loses answers: what was asked is done, and nobody is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes requests on, and swallows as many answers as it was told to, each with its connection.
pub(crate) struct AnswerEater {
    address: SocketAddr,
    hunger: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl AnswerEater {
    pub(crate) async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hunger = Arc::new(AtomicUsize::new(0));
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::spawn(pass_on(listener, server, hunger.clone(), connections.clone()));
        Self { address, hunger, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections that were ever opened.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Swallow the next answers.
    pub(crate) fn eat(&self, answers: usize) {
        self.hunger.store(answers, Ordering::SeqCst);
    }

    /// All of them were swallowed.
    pub(crate) fn is_full(&self) -> bool {
        self.hunger.load(Ordering::SeqCst) == 0
    }
}

async fn pass_on(
    listener: TcpListener,
    server: SocketAddr,
    hunger: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
) {
    while let Ok((near, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let hunger = hunger.clone();
        tokio::spawn(async move {
            let far = TcpStream::connect(server).await?;
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) =
                (near.into_split(), far.into_split());
            let requests = tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
            let mut bytes = vec![0; 1 << 16];
            loop {
                let count = far_in.read(&mut bytes).await?;
                let less = |hunger: usize| hunger.checked_sub(1);
                if count == 0 || hunger.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
                    requests.abort();
                    return std::io::Result::Ok(());
                }
                near_out.write_all(&bytes[..count]).await?;
            }
        });
    }
}
