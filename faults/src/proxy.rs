//! A hostile network: a TCP proxy that delays, trickles, cuts in the middle of a frame, and falls silent.
//!
//! What it does changes while connections run. A connection that was made a black hole stays one, without a sign of it on
//! either side, until whoever connected gives up or [`Proxy::release`] resets it.

mod commit;
mod pump;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of bytes that come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weather {
    /// They are passed on.
    #[default]
    Clear,
    /// They are passed on late, by up to so much.
    Delay(Duration),
    /// On every other connection they are passed on a few at a time, with such pauses.
    Trickle(Duration),
    /// Nothing is passed on, and nobody is told.
    Hole,
}

/// What is spoken on the connections, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Requests and answers.
    Http,
    /// PostgreSQL's, without TLS.
    Postgres,
}

/// See the module.
pub struct Proxy {
    address: SocketAddr,
    sky: Arc<Sky>,
    task: tokio::task::JoinHandle<()>,
}

/// What all connections look at.
struct Sky {
    protocol: Protocol,
    weather: watch::Sender<Weather>,
    /// So many frames are to be cut in the middle.
    cuts: AtomicU64,
    /// The answers to so many requests, or commits, are to be swallowed, and everything after them.
    swallows: AtomicU64,
    /// Black holes with a lower number are to be reset.
    released: watch::Sender<u64>,
    done: Counts,
}

/// What was done to connections.
#[derive(Default)]
struct Counts {
    cuts: AtomicU64,
    swallowed: AtomicU64,
    /// Longest time until somebody gave up a black hole, in microseconds.
    longest_hole: AtomicU64,
    holes: AtomicU64,
}

impl Proxy {
    /// In front of a server.
    pub async fn before(place: &str, protocol: Protocol) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a place for the proxy")?;
        let address = listener.local_addr().context("a place for the proxy")?;
        let sky = Arc::new(Sky {
            protocol,
            weather: watch::Sender::new(Weather::Clear),
            cuts: AtomicU64::new(0),
            swallows: AtomicU64::new(0),
            released: watch::Sender::new(0),
            done: Counts::default(),
        });
        let task = tokio::spawn(accept(listener, place.to_owned(), sky.clone()));
        Ok(Self { address, sky, task })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Change the weather, for connections that are open too.
    pub fn weather(&self, weather: Weather) {
        self.sky.weather.send_replace(weather);
    }

    /// Cut the next connections on which something moves in the middle of a frame.
    pub fn cut(&self, connections: u64) {
        self.sky.cuts.store(connections, Ordering::SeqCst);
    }

    /// Pass on the next requests, or for PostgreSQL the next commits, and be a black hole from then on.
    pub fn swallow(&self, answers: u64) {
        self.sky.swallows.store(answers, Ordering::SeqCst);
    }

    /// Reset all black holes.
    pub fn release(&self) {
        self.sky.released.send_modify(|number| *number += 1);
    }

    /// Connections that were cut so far.
    pub fn cuts(&self) -> u64 {
        self.sky.done.cuts.load(Ordering::SeqCst)
    }

    /// Answers that were swallowed so far.
    pub fn swallowed(&self) -> u64 {
        self.sky.done.swallowed.load(Ordering::SeqCst)
    }

    /// Black holes that nobody has given up yet.
    pub fn holes(&self) -> u64 {
        self.sky.done.holes.load(Ordering::SeqCst)
    }

    /// The longest time until a black hole was given up by whoever had connected.
    pub fn longest_hole(&self) -> Duration {
        Duration::from_micros(self.sky.done.longest_hole.load(Ordering::SeqCst))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sky {
    /// Take one of what is still to be done.
    fn take(&self, from: &AtomicU64) -> bool {
        let less = |left: u64| left.checked_sub(1);
        from.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn hole_begins(&self) -> Instant {
        // Whoever sees that one was swallowed must find the hole.
        self.done.holes.fetch_add(1, Ordering::SeqCst);
        self.done.swallowed.fetch_add(1, Ordering::SeqCst);
        Instant::now()
    }

    fn hole_ends(&self, began: Instant, given_up: bool) {
        self.done.holes.fetch_sub(1, Ordering::SeqCst);
        if given_up {
            let lasted = began.elapsed().as_micros() as u64;
            self.done.longest_hole.fetch_max(lasted, Ordering::SeqCst);
        }
    }
}

async fn accept(listener: TcpListener, place: String, sky: Arc<Sky>) {
    let mut number = 0;
    while let Ok((near, _)) = listener.accept().await {
        number += 1;
        let (place, sky) = (place.clone(), sky.clone());
        tokio::spawn(async move {
            // If nobody is there, the connection ends here too.
            if let Ok(far) = TcpStream::connect(place).await {
                pump::run(near, far, sky, number % 2 == 0).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Answers every piece with itself.
    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        place
    }

    async fn said(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn bytes_come_through_whatever_the_weather_but_a_hole() {
        let proxy = Proxy::before(&echo().await, Protocol::Http).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(TcpStream::connect(proxy.address()).await.unwrap());
        }
        let slow = Duration::from_millis(1);
        for weather in [Weather::Clear, Weather::Delay(slow), Weather::Trickle(slow), Weather::Clear] {
            proxy.weather(weather);
            for stream in &mut streams {
                assert_eq!(said(stream, &[7; 300]).await.unwrap(), [7; 300], "{weather:?}");
            }
        }
        proxy.weather(Weather::Hole);
        let stuck = tokio::spawn(async move { said(&mut streams[0], b"late").await });
        tokio::task::yield_now().await;
        assert!(!stuck.is_finished());
        proxy.weather(Weather::Clear);
        assert_eq!(stuck.await.unwrap().unwrap(), b"late");
    }

    #[tokio::test]
    async fn a_cut_resets_in_the_middle() {
        let proxy = Proxy::before(&echo().await, Protocol::Http).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        said(&mut stream, b"whole").await.unwrap();
        proxy.cut(1);
        assert!(said(&mut stream, &[7; 100]).await.is_err());
        assert_eq!(proxy.cuts(), 1);
        let mut next = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(said(&mut next, b"whole").await.unwrap(), b"whole");
    }

    #[tokio::test]
    async fn a_swallowed_answer_leaves_a_black_hole_until_somebody_gives_up() {
        let proxy = Proxy::before(&echo().await, Protocol::Http).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
            said(&mut stream, b"before").await.unwrap();
            streams.push(stream);
        }
        // What was released before is not meant.
        proxy.release();
        proxy.swallow(2);
        for stream in &mut streams {
            stream.write_all(b"asked").await.unwrap();
        }
        while proxy.holes() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(proxy.swallowed(), 2);
        tokio::time::timeout(Duration::from_millis(50), streams[0].read(&mut [0; 9])).await.unwrap_err();
        drop(streams.pop());
        while proxy.holes() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(proxy.longest_hole() > Duration::ZERO);
        proxy.release();
        assert_eq!(streams[0].read(&mut [0; 9]).await.unwrap_or(0), 0, "nothing was passed on");
        assert_eq!(proxy.holes(), 0);
    }
}
