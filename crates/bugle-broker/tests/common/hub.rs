//! A carrier inside the process: every broker hears every frame, unless the test says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bugle_wake::{Carrier, Event, Job, Line, Running, Shape, Source, Transport};
use bytes::Bytes;
use tokio::sync::broadcast;

/// Where all frames meet.
#[derive(Clone)]
pub(crate) struct Hub {
    frames: broadcast::Sender<Bytes>,
    lose: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { frames: broadcast::channel(1024).0, lose: Arc::default(), sent: Arc::default() }
    }

    pub(crate) fn carrier(&self) -> Carrier {
        Carrier::custom(self.clone())
    }

    /// Lose every frame from now on, silently.
    pub(crate) fn lose(&self, lose: bool) {
        self.lose.store(lose, Ordering::SeqCst);
    }

    /// Frames sent so far, lost or not.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

impl Transport for Hub {
    fn source(&self) -> Source {
        Source::Custom("hub")
    }

    fn shape(&self) -> Shape {
        Shape::Everyone
    }

    fn max_frame(&self) -> usize {
        4096
    }

    fn run(self: Box<Self>, mut line: Line) -> Running {
        let mut heard = self.frames.subscribe();
        Box::pin(async move {
            let _ = line.events.send(Event::Up).await;
            loop {
                let event = tokio::select! {
                    job = line.jobs.recv() => match job {
                        Some(Job::Send { frames, .. }) => {
                            for frame in frames {
                                self.sent.fetch_add(1, Ordering::SeqCst);
                                if !self.lose.load(Ordering::SeqCst) {
                                    let _ = self.frames.send(frame);
                                }
                            }
                            Event::Sent(true)
                        }
                        Some(Job::Reset(_)) => continue,
                        None => return,
                    },
                    Ok(bytes) = heard.recv() => Event::Frame { from: None, bytes },
                };
                if line.events.send(event).await.is_err() {
                    return;
                }
            }
        })
    }
}
