//! Datagrams between servers, and a way for them that can lose one.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the kind of a frame stands: after signature, date, number and version.
const KIND: usize = 32 + 8 + 8 + 1;
/// The kind of those with hints.
const HINTS: u8 = 1;

/// Addresses that nobody uses.
pub(crate) fn free_udp<const N: usize>() -> [SocketAddr; N] {
    // All are held until the last is found, so that they differ.
    let sockets = std::array::from_fn(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket: UdpSocket| socket.local_addr().unwrap())
}

/// Stands between two servers; each has it as its peer.
pub(crate) struct DatagramProxy {
    pub(crate) address: SocketAddr,
    to_lose: Arc<AtomicU64>,
}

impl DatagramProxy {
    pub(crate) async fn between(one: SocketAddr, two: SocketAddr) -> Self {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (address, to_lose) = (socket.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let left = to_lose.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 2_000];
            // A peer that is not there yet answers with an error; the next datagram may find it.
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
                let datagram = &buffer[..length];
                let hints = datagram.get(KIND) == Some(&HINTS);
                let lost = hints
                    && left.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                if !lost {
                    let _ = socket.send_to(datagram, if from == one { two } else { one }).await;
                }
            }
        });
        Self { address, to_lose }
    }

    /// Lose the next datagram with hints.
    pub(crate) fn lose_one(&self) {
        self.to_lose.store(1, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_lost_it(&self) -> bool {
        self.to_lose.load(Ordering::SeqCst) == 0
    }
}
