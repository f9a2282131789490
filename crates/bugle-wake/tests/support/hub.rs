//! A medium inside the process that loses, doubles and reorders, and can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use bugle_wake::{Carrier, Event, Job, Line, Running, Shape, Source, Transport};
use tokio::sync::mpsc;

/// Reaches everybody, more or less.
#[derive(Default)]
pub(crate) struct Hub {
    members: std::sync::Mutex<Vec<mpsc::Sender<Event>>>,
    /// Of 100 frames so many are lost, so many doubled, so many late.
    pub(crate) lose: AtomicU8,
    pub(crate) double: AtomicU8,
    pub(crate) delay: AtomicU8,
    pub(crate) cut: AtomicBool,
}

impl Hub {
    pub(crate) fn carrier(self: &Arc<Self>) -> Carrier {
        Carrier::custom(Lossy { hub: Arc::clone(self) })
    }

    pub(crate) fn trouble(&self, lose: u8, double: u8, delay: u8) {
        self.lose.store(lose, Ordering::Relaxed);
        self.double.store(double, Ordering::Relaxed);
        self.delay.store(delay, Ordering::Relaxed);
    }

    fn deliver(&self, event: &Event) {
        let chance = |of: &AtomicU8| fastrand::u8(..100) < of.load(Ordering::Relaxed);
        for member in self.members.lock().expect("nobody panics here").iter() {
            if self.cut.load(Ordering::Relaxed) || chance(&self.lose) {
                continue;
            }
            for _ in 0..=u8::from(chance(&self.double)) {
                let (member, event) = (member.clone(), event.clone());
                if chance(&self.delay) {
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..40))).await;
                        let _ = member.try_send(event);
                    });
                } else {
                    let _ = member.try_send(event);
                }
            }
        }
    }
}

struct Lossy {
    hub: Arc<Hub>,
}

impl Transport for Lossy {
    fn source(&self) -> Source {
        Source::Custom("lossy")
    }

    fn shape(&self) -> Shape {
        Shape::Everyone
    }

    fn max_frame(&self) -> usize {
        1_024
    }

    fn run(self: Box<Self>, line: Line) -> Running {
        Box::pin(async move {
            let Line { mut jobs, events, .. } = line;
            self.hub.members.lock().expect("nobody panics here").push(events.clone());
            let _ = events.send(Event::Up).await;
            while let Some(job) = jobs.recv().await {
                if let Job::Send { frames, .. } = job {
                    for bytes in frames {
                        self.hub.deliver(&Event::Frame { from: None, bytes });
                    }
                    let _ = events.send(Event::Sent(true)).await;
                }
            }
            self.hub.members.lock().expect("nobody panics here").retain(|m| !m.same_channel(&events));
        })
    }
}
