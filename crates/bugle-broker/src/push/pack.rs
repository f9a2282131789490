//! Compressing what is about to be appended, where the server is told to and it pays (see [`packing`]).

use bugle_store::{MAX_PLAIN, Message, NewSegment, QueueId, pack};

use crate::inner::Inner;
use crate::semantics::packing;

impl Inner {
    /// Compress the body of a segment of these messages, if it is worth it.
    pub(super) fn pack(&self, queue: QueueId, messages: &[Message], segment: &mut NewSegment) {
        let Some(codec) = self.config.compression else { return };
        let plain = segment.body.len();
        let encrypted = messages.iter().any(|message| message.encrypted);
        if !packing::may_pay(plain, encrypted) || plain > MAX_PLAIN {
            return;
        }
        let meter = self.meters.queues.of(queue);
        if !meter.packing.lock().tries() {
            return;
        }
        let packed = pack(codec, &segment.body).filter(|packed| packing::pays(plain, packed.len()));
        meter.packing.lock().learn(packed.is_some());
        let Some(packed) = packed else { return self.meters.packing.unpaid.one() };
        self.meters.packing.before.add(plain as u64);
        self.meters.packing.after.add(packed.len() as u64);
        segment.body = packed;
    }
}
