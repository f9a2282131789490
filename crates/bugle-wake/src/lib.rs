//! Waking sleepers, here and on other servers.
//!
//! [`Timers`] wake at exact times. A [`Bell`] tells other servers what moved ([`Bell::ring`]) and hears what moved
//! there. What a [`Tiding`] is, the caller decides: a queue, a lane, a worker's task.
//!
//! A hint is only a hint. Whoever is woken looks at the truth again; whoever is not woken is found by a timer. So a hint
//! that is lost, doubled or late may cost time, never correctness, and the carriers need no acknowledgements. What they
//! do promise is to notice: senders number their hints, a burst is followed by one frame that repeats the number, and
//! whenever something may have been missed (a gap, a silent or restarted peer, a new connection) there is one
//! [`Heard::Recheck`]. While [`Hearing`] stays connected and its `lapses` do not grow, nothing was missed, except what a
//! server could not send because it crashed between its change and its hint.
//!
//! Carriers: [`Carrier::notify`] (LISTEN/NOTIFY, one statement per burst, nothing at all while no other server is
//! heard), [`Carrier::udp`] (signed datagrams between configured peers, only to those who want the topic), or any
//! [`Transport`]. Each proves its health by its own pings, and what it hears is bounded everywhere.
//!
//! ```no_run
//! # async fn example(pool: bugle_pg::Pool, listen: bugle_pg::Config) {
//! use bugle_wake::{Bell, BellOptions, Carrier, Heard, NotifyOptions, Tiding};
//!
//! #[derive(Clone, PartialEq, Eq, Hash, Debug)]
//! struct Moved(u8);
//!
//! impl Tiding for Moved {
//!     fn encode(&self, out: &mut Vec<u8>) {
//!         out.push(self.0);
//!     }
//!     fn decode(input: &mut &[u8]) -> Option<Self> {
//!         let (first, rest) = input.split_first()?;
//!         *input = rest;
//!         Some(Self(*first))
//!     }
//!     fn topic(&self) -> Option<u64> {
//!         None
//!     }
//! }
//!
//! let carrier = Carrier::notify(NotifyOptions::new(listen, pool, "my_channel"));
//! let (bell, mut heard) = Bell::start(BellOptions::default(), vec![carrier]);
//! bell.ring(Moved(7));
//! while let Some(heard) = heard.recv().await {
//!     match heard {
//!         Heard::Tidings { tidings, .. } => println!("look at {tidings:?}"),
//!         Heard::Recheck { reason, .. } => println!("look at everything: {reason}"),
//!         Heard::Health(hearing) => println!("{}", hearing.state),
//!     }
//! }
//! # }
//! ```
//!
//! Modules in reading order; each uses only those above it.

mod atomic;
mod planted;

mod timer;

mod hint;
mod options;
mod status;

mod transport;

mod interest;

mod frame;

mod outbox;
mod peers;
mod pulse;
mod replay;

mod core;

mod duty;
mod intake;

mod driver;

mod notify;
mod udp;

mod bell;

#[cfg(feature = "fuzz")]
pub mod fuzz;

pub use bell::Bell;
pub use hint::{Audience, Heard, Hearing, HearingState, Source, Tiding};
pub use notify::NotifyOptions;
pub use options::BellOptions;
pub use status::{CarrierStatus, Counters, DropReason, Dropped, PeerStatus};
pub use timer::Timers;
pub use transport::{Carrier, Destination, Event, Job, Line, Running, Shape, Transport};
pub use udp::{CarrierError, UdpOptions};
