//! Those who listen to what happens, as it happens.
//!
//! Each event is spelled once and sent to all who listen to its topic. Who cannot follow misses events, and keeps nobody
//! else waiting. Whoever comes first must begin to tell, and stops a minute after nobody listens any more: who comes until then
//! is told what happened meanwhile, so that a page that is opened anew need not begin with empty charts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// Who listens at the same time.
pub(crate) const MOST: usize = 64;
/// Events of each topic that a slow listener may be behind.
const BEHIND: usize = 16;

/// Events of a topic that are kept for those who come.
pub(crate) const RECENT: usize = 120;
/// Looks at [`Hub::wanted`] after which it is over when nobody listens.
const LINGERS: u32 = 60;

/// What can be listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Counters of this server.
    Server,
    /// What moved, by queue.
    Queues,
    /// What queues hold.
    Totals,
    /// The waiting room.
    Waiting,
}

impl Topic {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Server, "server"),
        (Self::Queues, "queues"),
        (Self::Totals, "totals"),
        (Self::Waiting, "waiting"),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(topic, _)| topic)
    }

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether events say what happened, and not how it is: only those are of use later.
    fn is_history(self) -> bool {
        matches!(self, Self::Server | Self::Queues)
    }
}

/// One event, spelled.
pub(crate) type Event = (Topic, Bytes);

/// Those who listen.
pub(crate) struct Hub {
    sender: Sender<Event>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: usize,
    /// By topic.
    wanted: [usize; Topic::ALL.len()],
    /// The latest events, for those who come.
    recent: [VecDeque<Bytes>; Topic::ALL.len()],
    running: bool,
    /// Looks since somebody listened.
    idle: u32,
}

impl Default for Hub {
    fn default() -> Self {
        Self { sender: Sender::new(BEHIND * Topic::ALL.len()), state: Mutex::default() }
    }
}

/// Somebody who listens, until this is dropped.
pub(crate) struct Listener {
    hub: Arc<Hub>,
    topics: Vec<Topic>,
    /// What was told last before this one came.
    pub(crate) before: Vec<Bytes>,
    receiver: Receiver<Event>,
}

impl Listener {
    /// The next event that is for this one. It is behind by no more than [`BEHIND`] of each topic.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.receiver.recv().await {
                Ok((topic, text)) if self.topics.contains(&topic) => return Some(text),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.listeners -= 1;
        self.topics.iter().for_each(|topic| state.wanted[*topic as usize] -= 1);
    }
}

impl Hub {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begin to listen, with so many events of each topic from before, and whether somebody must begin to tell; `None` = too
    /// many listen.
    pub(crate) fn join(self: &Arc<Self>, topics: Vec<Topic>, recent: usize) -> Option<(Listener, bool)> {
        let mut state = self.state();
        if state.listeners >= MOST {
            return None;
        }
        state.listeners += 1;
        topics.iter().for_each(|topic| state.wanted[*topic as usize] += 1);
        state.idle = 0;
        let kept = topics.iter().map(|topic| &state.recent[*topic as usize]);
        let before = kept.flat_map(|kept| kept.range(kept.len().saturating_sub(recent)..)).cloned().collect();
        let begin = !std::mem::replace(&mut state.running, true);
        let receiver = self.sender.subscribe();
        drop(state);
        Some((Listener { hub: self.clone(), topics, before, receiver }, begin))
    }

    /// What is wanted; `None` = nobody has listened for long, and whoever comes starts another ticker.
    pub(crate) fn wanted(&self) -> Option<Vec<Topic>> {
        let mut state = self.state();
        if state.listeners == 0 {
            state.idle += 1;
        }
        if state.idle > LINGERS {
            *state = State::default();
            return None;
        }
        let lingers = state.listeners == 0;
        if lingers {
            // How it is now grows old while nobody asks.
            let passing = Topic::ALL.iter().filter(|(topic, _)| !topic.is_history());
            passing.for_each(|(topic, _)| state.recent[*topic as usize].clear());
        }
        // What was told of is told of further; what says how it is waits for somebody to ask.
        let wanted = |topic: &Topic| {
            let at = *topic as usize;
            state.wanted[at] > 0 || lingers && topic.is_history() && !state.recent[at].is_empty()
        };
        Some(Topic::ALL.iter().map(|(topic, _)| *topic).filter(wanted).collect())
    }

    /// Tell everybody who listens to it.
    pub(crate) fn send(&self, topic: Topic, event: &impl Serialize) {
        let Ok(data) = serde_json::to_string(event) else { return };
        let text = Bytes::from(format!("event: {}\ndata: {data}\n\n", topic.name()));
        let mut state = self.state();
        let kept = &mut state.recent[topic as usize];
        if kept.len() >= if topic.is_history() { RECENT } else { 1 } {
            kept.pop_front();
        }
        kept.push_back(text.clone());
        drop(state);
        // Nobody is there to hear it: then it is not told.
        let _ = self.sender.send((topic, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_begins_to_tell_and_the_last_ends_it() {
        let hub = Arc::new(Hub::default());
        let (mut one, begin) = hub.join(vec![Topic::Server], 1).unwrap();
        assert!(begin);
        let (mut two, begin) = hub.join(vec![Topic::Queues, Topic::Server], 1).unwrap();
        assert!(!begin);
        assert_eq!(hub.wanted().unwrap(), [Topic::Server, Topic::Queues]);
        hub.send(Topic::Queues, &1);
        hub.send(Topic::Server, &2);
        assert_eq!(one.next().await.unwrap(), "event: server\ndata: 2\n\n");
        assert_eq!(two.next().await.unwrap(), "event: queues\ndata: 1\n\n");
        let (late, _) = hub.join(vec![Topic::Server], 1).unwrap();
        assert_eq!(late.before, ["event: server\ndata: 2\n\n"]);
        drop((one, two, late));
        (0..LINGERS).for_each(|_| assert!(hub.wanted().is_some()));
        assert!(hub.wanted().is_none());
        let (again, begin) = hub.join(vec![Topic::Server], 1).unwrap();
        assert!(begin && again.before.is_empty(), "what was told before is old");
    }

    #[test]
    fn who_comes_again_hears_what_happened_meanwhile() {
        let hub = Arc::new(Hub::default());
        let (page, _) = hub.join(vec![Topic::Server, Topic::Totals], 9).unwrap();
        assert!(page.before.is_empty());
        drop(page);
        assert!(hub.wanted().unwrap().is_empty(), "nothing was told yet");
        hub.send(Topic::Totals, &0);
        (0..RECENT + 5).for_each(|n| hub.send(Topic::Server, &n));
        assert_eq!(hub.wanted().unwrap(), [Topic::Server], "what queues hold is not counted for nobody");
        let (again, begin) = hub.join(vec![Topic::Server, Topic::Totals], 3).unwrap();
        assert!(!begin);
        let told = [122, 123, 124].map(|n| format!("event: server\ndata: {n}\n\n"));
        assert_eq!(again.before, told, "and nothing old of what is");
        let (all, _) = hub.join(vec![Topic::Server], 1000).unwrap();
        assert_eq!(all.before.len(), RECENT, "bounded");
    }

    #[test]
    fn listeners_are_bounded() {
        let hub = Arc::new(Hub::default());
        let many: Vec<_> = (0..MOST).map(|_| hub.join(vec![Topic::Totals], 1).unwrap()).collect();
        assert!(hub.join(vec![Topic::Totals], 1).is_none());
        drop(many);
        assert!(hub.join(vec![Topic::Totals], 1).is_some());
    }
}
