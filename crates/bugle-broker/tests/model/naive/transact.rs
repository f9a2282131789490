//! Transactions: all or nothing. Inside one `failed` gives a message up at once, and `retry` is an error.

use bugle_broker::{
    AckItem, AckStatus, LeaseToken, Operation, OperationResult, PushItem, Pushed, Transacted,
};

use super::{Check, Naive, ensure};

impl Naive {
    pub(crate) fn transact(
        &mut self,
        operations: &[Operation],
        required: &[LeaseToken],
        answer: &Transacted,
    ) -> Check {
        let (mut pushes, mut acks) = (Vec::new(), Vec::new());
        for operation in operations {
            match operation {
                Operation::Push(item) => pushes.push(item.clone()),
                Operation::Ack(ack) => acks.push(read(ack, required)),
            }
        }
        let reasons = self.refusals(&pushes, &acks);
        let told = answer.error.as_deref().map(|error| (answer.reason.unwrap_or_default(), error));
        ensure!(answer.success == told.is_none(), "success {} with {told:?}", answer.success);
        let kind = |(reason, error): (&str, &str)| match reason {
            "duplicate" => "duplicate".to_owned(),
            _ => error.strip_prefix("ACK operation failed: ").unwrap_or(error).to_owned(),
        };
        let told = told.map(kind);
        // Of several reasons any may be told.
        let fits = match &told {
            Some(told) => reasons.iter().any(|reason| told.starts_with(reason)),
            None => reasons.is_empty(),
        };
        ensure!(fits, "refused with {told:?}, expected one of {reasons:?}");
        if answer.success {
            ensure!(answer.results.len() == operations.len(), "{} results", answer.results.len());
            self.follow(&pushes, &acks, &answer.results)?;
        }
        Ok(())
    }

    /// Why it must be refused; empty if it must not.
    fn refusals(&mut self, pushes: &[PushItem], acks: &[AckItem]) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        for item in pushes {
            let id = item.transaction_id.as_ref().map(|id| String::from_utf8_lossy(id).into_owned());
            if id.is_some_and(|id| !self.originals(item, &id).is_empty()) {
                reasons.push("duplicate");
            }
        }
        if acks.iter().any(|ack| ack.status == AckStatus::Retry) {
            reasons.push("Unknown error");
        }
        let kept = self.positions();
        let held = acks.iter().all(|ack| self.holds(ack));
        let verdicts = self.settle_all(acks);
        self.restore(kept);
        // What another has done since is not done twice.
        let more = !pushes.is_empty() || verdicts.iter().any(|verdict| !verdict.noop);
        if !held && more {
            reasons.push("Invalid or expired lease");
        }
        let refused = verdicts.into_iter().filter_map(|verdict| verdict.error);
        reasons.extend(refused.map(|error| match error {
            "unresolvable" | "consumer not found" => "Message not found",
            "invalid or expired lease" => "Invalid or expired lease",
            other => other,
        }));
        reasons
    }

    fn follow(&mut self, pushes: &[PushItem], acks: &[AckItem], results: &[OperationResult]) -> Check {
        let pushed: Vec<&Pushed> = results
            .iter()
            .filter_map(|result| match result {
                OperationResult::Push(pushed, _) => Some(pushed),
                OperationResult::Ack(..) => None,
            })
            .collect();
        ensure!(pushed.len() == pushes.len(), "{} results for {} pushes", pushed.len(), pushes.len());
        let dead: Vec<bool> = results
            .iter()
            .filter_map(|result| match result {
                OperationResult::Ack(_, acked) => Some(acked.dlq),
                OperationResult::Push(..) => None,
            })
            .collect();
        let expected: Vec<bool> = self.settle_all(acks).into_iter().map(|verdict| verdict.dlq).collect();
        ensure!(dead == expected, "dead letters {dead:?}, expected {expected:?}");
        // Behind the acks, which are about what was there before, though it may have the same id.
        for (item, pushed) in pushes.iter().zip(pushed) {
            self.push_one(item, pushed)?;
        }
        Ok(())
    }
}

/// An acknowledgement as a transaction reads it.
fn read(ack: &AckItem, required: &[LeaseToken]) -> AckItem {
    let status = if ack.status == AckStatus::Failed { AckStatus::Dlq } else { ack.status };
    let single = if let [single] = required { Some(*single) } else { None };
    AckItem { status, lease: ack.lease.or(single), ..ack.clone() }
}
