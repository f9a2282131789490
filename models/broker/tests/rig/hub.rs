//! A carrier inside the process, which loses what a model says.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bugle_wake::{Carrier, Event, Job, Line, Running, Shape, Source, Transport};
use bytes::Bytes;
use tokio::model::note;
use tokio::sync::broadcast;
use tokio::time;

const LATENCY: Duration = Duration::from_millis(1);

/// Where all frames meet.
#[derive(Clone)]
pub(crate) struct Hub {
    frames: broadcast::Sender<(usize, Bytes)>,
    /// Frames to lose.
    lose: Arc<AtomicUsize>,
}

/// One end of it.
struct End {
    hub: Hub,
    place: usize,
    shape: Shape,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { frames: broadcast::channel(1024).0, lose: Arc::default() }
    }

    /// A carrier like NOTIFY: everybody hears everything.
    pub(crate) fn everyone(&self, place: usize) -> Carrier {
        Carrier::custom(End { hub: self.clone(), place, shape: Shape::Everyone })
    }

    /// A carrier like UDP with one peer: only what the peer wants is sent.
    pub(crate) fn peer(&self, place: usize) -> Carrier {
        Carrier::custom(End { hub: self.clone(), place, shape: Shape::Peers(vec!["other".into()]) })
    }

    /// Lose the next so many frames, silently.
    pub(crate) fn lose(&self, frames: usize) {
        self.lose.store(frames, Ordering::SeqCst);
    }
}

impl Transport for End {
    fn source(&self) -> Source {
        Source::Custom("hub")
    }

    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn max_frame(&self) -> usize {
        4096
    }

    fn run(self: Box<Self>, mut line: Line) -> Running {
        let mut heard = self.hub.frames.subscribe();
        let all = self.shape == Shape::Everyone;
        Box::pin(async move {
            let _ = line.events.send(Event::Up).await;
            loop {
                let event = tokio::select! {
                    job = line.jobs.recv() => match job {
                        Some(Job::Send { frames, .. }) => {
                            // A network takes its time; a database that everybody hears has taken it already.
                            if !all && fastrand::bool() {
                                time::sleep(LATENCY).await;
                            }
                            for frame in frames {
                                note(|| format!("server {} sends {frame:?}", self.place));
                                let lost = self.hub.lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                                if lost.is_ok() {
                                    note(|| "which is lost".to_owned());
                                } else {
                                    let _ = self.hub.frames.send((self.place, frame));
                                }
                            }
                            if !all {
                                continue;
                            }
                            Event::Sent(true)
                        }
                        Some(Job::Reset(_)) => continue,
                        None => return,
                    },
                    Ok((from, bytes)) = heard.recv() => {
                        if !all && from == self.place {
                            continue;
                        }
                        // Peers are answered where they are.
                        let from = (!all).then(|| SocketAddr::from(([127, 0, 0, 1], from as u16)));
                        Event::Frame { from, bytes }
                    }
                };
                if line.events.send(event).await.is_err() {
                    return;
                }
            }
        })
    }
}
