//! Stands between two servers that tell each other by UDP, and can lose one datagram.

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

/// Where the kind of a frame stands: after signature, date, number and version.
const KIND: usize = 32 + 8 + 8 + 1;
/// The kind of those with hints.
const HINTS: u8 = 1;
/// No frame is larger.
const LONGEST: usize = 2_000;

/// A free address of this machine.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())?)
}

/// Each of the two servers has it as its peer.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    losing: Rc<Cell<bool>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn between(one: SocketAddr, two: SocketAddr) -> Result<Self> {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.context("a socket for datagrams")?;
        let (address, losing) = (socket.local_addr()?, Rc::new(Cell::new(false)));
        let lose = Rc::clone(&losing);
        let task = tokio::task::spawn_local(async move {
            let mut buffer = [0; LONGEST];
            loop {
                // A peer that is not there answers with an error; the next datagram may find it.
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
                let datagram = &buffer[..length];
                if has_hints(datagram) && lose.take() {
                    continue;
                }
                let _ = socket.send_to(datagram, if from == one { two } else { one }).await;
            }
        });
        Ok(Self { address, losing, task })
    }

    /// Lose the next datagram with hints.
    pub(crate) fn lose_one(&self) {
        self.losing.set(true);
    }

    /// Whether that has happened.
    pub(crate) fn has_lost_it(&self) -> bool {
        !self.losing.get()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn has_hints(datagram: &[u8]) -> bool {
    datagram.get(KIND) == Some(&HINTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_datagram_with_hints_is_lost_and_nothing_else() {
        let run = async {
            let one = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let two = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let proxy = Proxy::between(one.local_addr().unwrap(), two.local_addr().unwrap()).await.unwrap();
            let mut hints = vec![HINTS; KIND + 2];
            proxy.lose_one();
            one.send_to(b"ping", proxy.address).await.unwrap();
            one.send_to(&hints, proxy.address).await.unwrap();
            hints.push(9);
            one.send_to(&hints, proxy.address).await.unwrap();
            let mut buffer = [0; 100];
            assert_eq!(two.recv_from(&mut buffer).await.unwrap().0, 4);
            assert_eq!(two.recv_from(&mut buffer).await.unwrap().0, KIND + 3, "the first with hints is gone");
            assert!(proxy.has_lost_it());
            two.send_to(b"pong!", proxy.address).await.unwrap();
            assert_eq!(one.recv_from(&mut buffer).await.unwrap().0, 5);
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }
}
