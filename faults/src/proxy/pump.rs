//! One connection through the proxy: bytes both ways, as the weather is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::commit::Commits;
use super::{Protocol, Sky, Weather};

/// Bytes passed on at a time where they trickle.
const DROP: usize = 7;
/// So many pauses are made for one piece, so that large ones come through at all.
const DROPS: usize = 40;

/// How a direction ended.
enum End {
    /// Closed by one side, or broken.
    Closed,
    /// Both sides are to be told that it broke.
    Reset,
    /// Neither side is to be told anything.
    Hole,
}

/// Pass bytes on until either side ends, or the weather ends it.
pub(super) async fn run(mut near: TcpStream, mut far: TcpStream, sky: Arc<Sky>, slow: bool) {
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    // Nothing that comes back is passed on any more.
    let silent = AtomicBool::new(false);
    let end = {
        let up = Pump { sky: &sky, silent: &silent, slow, up: true, commits: Commits::default() };
        let down = Pump { sky: &sky, silent: &silent, slow, up: false, commits: Commits::default() };
        let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.split(), far.split());
        tokio::select! {
            end = up.run(&mut near_in, &mut far_out) => end,
            end = down.run(&mut far_in, &mut near_out) => end,
        }
    };
    match end {
        // Dropping them tells both sides in the usual way.
        End::Closed => (),
        End::Reset => drop((near.set_zero_linger(), far.set_zero_linger())),
        End::Hole => {
            // Only a release from now on ends it.
            let mut released = sky.released.subscribe();
            let began = sky.hole_begins();
            let given_up = tokio::select! {
                _ = released.changed() => false,
                () = until_closed(&mut near) => true,
            };
            sky.hole_ends(began, given_up);
        }
    }
}

/// Read what is sent into a black hole until the sender gives up.
async fn until_closed(near: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while near.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

/// One direction.
struct Pump<'s> {
    sky: &'s Sky,
    silent: &'s AtomicBool,
    slow: bool,
    /// From whoever connected.
    up: bool,
    commits: Commits,
}

impl Pump<'_> {
    async fn run(mut self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> End {
        let mut bytes = vec![0; 1 << 14];
        loop {
            let count = match from.read(&mut bytes).await {
                Ok(0) | Err(_) => return End::Closed,
                Ok(count) => count,
            };
            let piece = &bytes[..count];
            if self.up {
                self.listen(piece);
            } else if self.silent.load(Ordering::SeqCst) {
                // The answer is here: what was asked is done, and nobody will know.
                return End::Hole;
            }
            if count > 1 && self.sky.take(&self.sky.cuts) {
                self.sky.done.cuts.fetch_add(1, Ordering::SeqCst);
                let _ = to.write_all(&piece[..count / 2]).await;
                return End::Reset;
            }
            if !self.pass(piece, to).await {
                return End::Closed;
            }
        }
    }

    /// Whether the answer to this is to be swallowed.
    fn listen(&mut self, piece: &[u8]) {
        let asks = match self.sky.protocol {
            Protocol::Http => true,
            Protocol::Postgres => self.commits.read(piece),
        };
        if asks && !self.silent.load(Ordering::SeqCst) && self.sky.take(&self.sky.swallows) {
            self.silent.store(true, Ordering::SeqCst);
        }
    }

    async fn pass(&self, piece: &[u8], to: &mut WriteHalf<'_>) -> bool {
        let mut weather = self.sky.weather.subscribe();
        let now = *weather.borrow_and_update();
        match now {
            Weather::Clear => to.write_all(piece).await.is_ok(),
            Weather::Delay(most) => {
                let late = Duration::from_micros(fastrand::u64(..=most.as_micros() as u64));
                tokio::time::sleep(late).await;
                to.write_all(piece).await.is_ok()
            }
            Weather::Trickle(pause) if self.slow => {
                for (number, drop) in piece.chunks(DROP).enumerate() {
                    if to.write_all(drop).await.is_err() {
                        return false;
                    }
                    if number < DROPS && *weather.borrow_and_update() == now {
                        tokio::time::sleep(pause).await;
                    }
                }
                true
            }
            Weather::Trickle(_) => to.write_all(piece).await.is_ok(),
            Weather::Hole => {
                // Until it clears up; by then whoever waited may be gone.
                let cleared = weather.wait_for(|weather| *weather != Weather::Hole).await.is_ok();
                cleared && to.write_all(piece).await.is_ok()
            }
        }
    }
}
