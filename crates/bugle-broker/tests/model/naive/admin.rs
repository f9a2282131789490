//! Queues and groups as operators change them, and what is left of a queue in the end.

use std::collections::BTreeMap;

use bugle_broker::{Configure, Configured, GroupDeleted, Refused, SeekTo, Sought};
use bugle_store::{Enforced, QueueOptions};
use serde_json::Value;

use super::{Begin, Check, Cursor, Dead, Naive, Queue, Reading, ensure};

/// Everything that acknowledgements change.
pub(super) type Positions =
    (BTreeMap<(String, String), BTreeMap<String, Cursor>>, BTreeMap<String, Vec<Dead>>);

impl Naive {
    pub(crate) fn seek(
        &mut self,
        (name, partition, group): (&str, Option<&str>, &str),
        to: SeekTo,
        answer: &Result<Sought, Refused>,
    ) -> Check {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(name) else { return refused(answer, "Queue not found") };
        let place = partition.map(|name| queue.lanes.iter().position(|lane| lane.name == name));
        if place == Some(None) {
            return refused(answer, "Partition not found");
        }
        let begin = match to {
            SeekTo::Beginning => Begin::AtTheOldest,
            SeekTo::End => Begin::After(now),
            SeekTo::Time(at) => Begin::After(at.0.min(now)),
        };
        let known = queue.groups.contains_key(group);
        let of_all = if place.is_some() { Begin::AtTheOldest } else { begin };
        let unmet = Reading { begin: of_all, conflates: false };
        let reading = queue.groups.entry(group.to_owned()).or_insert(unmet);
        if place.is_none() {
            reading.begin = begin;
        }
        let mut expected = Sought { partitions: 0, position: None };
        for (i, lane) in queue.lanes.iter_mut().enumerate() {
            let position = match to {
                SeekTo::Beginning => 0,
                SeekTo::End => lane.messages.len(),
                SeekTo::Time(at) => lane.after(at.0),
            };
            let met = lane.cursors.contains_key(group);
            match place.flatten() {
                Some(wanted) if wanted == i => {
                    expected = Sought { partitions: 1, position: Some(position as u64) };
                }
                Some(_) => continue,
                None if met => expected.partitions += 1,
                // A lane it has not met follows from where the group begins.
                None if !known || lane.messages.is_empty() => continue,
                None => (),
            }
            lane.cursors.insert(group.to_owned(), Cursor { next: position, ..Cursor::default() });
        }
        let told = answer.as_ref().map_err(ToString::to_string)?;
        ensure!(*told == expected, "answered {told:?}, expected {expected:?}");
        Ok(())
    }

    pub(crate) fn delete_group(
        &mut self,
        name: &str,
        group: &str,
        metadata: bool,
        answer: &Result<GroupDeleted, Refused>,
    ) -> Check {
        let Some(queue) = self.queues.get_mut(name) else { return refused(answer, "Queue not found") };
        let removed = queue.lanes.iter_mut().filter_map(|lane| lane.cursors.remove(group)).count();
        let known = if metadata { queue.groups.remove(group).is_some() } else { false };
        let expected = GroupDeleted { partitions: removed as u64, metadata: known };
        let told = answer.as_ref().map_err(ToString::to_string)?;
        ensure!(*told == expected, "answered {told:?}, expected {expected:?}");
        Ok(())
    }

    pub(crate) fn delete_queue(&mut self, name: &str, existed: bool) -> Check {
        let expected = self.queues.remove(name).is_some();
        ensure!(existed == expected, "existed: {existed}, expected {expected}");
        Ok(())
    }

    pub(crate) fn configure(&mut self, request: &Configure, answer: &Configured) -> Check {
        let unnamed = || Queue::new(String::new(), String::new(), QueueOptions::default());
        let queue = self.queues.entry(request.queue.to_string()).or_insert_with(unnamed);
        if request.replace {
            queue.options = QueueOptions::default();
            (queue.namespace, queue.task) = Default::default();
        }
        if let Some(namespace) = &request.namespace {
            queue.namespace.clone_from(namespace);
        }
        if let Some(task) = &request.task {
            queue.task.clone_from(task);
        }
        for (option, value) in &request.options {
            set(&mut queue.options, option, value);
        }
        let told = (&*answer.namespace, &*answer.task, &answer.options);
        let expected = (&*queue.namespace, &*queue.task, &queue.options);
        ensure!(told == expected, "answered {told:?}, expected {expected:?}");
        ensure!(answer.ignored.is_empty(), "ignored {:?}", answer.ignored);
        Ok(())
    }

    /// What acknowledgements may change, to be restored.
    pub(super) fn positions(&self) -> Positions {
        let (mut cursors, mut dead) = (BTreeMap::new(), BTreeMap::new());
        for (name, queue) in &self.queues {
            dead.insert(name.clone(), queue.dead.clone());
            let lanes = queue.lanes.iter();
            cursors.extend(lanes.map(|lane| ((name.clone(), lane.name.clone()), lane.cursors.clone())));
        }
        (cursors, dead)
    }

    pub(super) fn restore(&mut self, (mut cursors, mut dead): Positions) {
        for (name, queue) in &mut self.queues {
            queue.dead = dead.remove(name).unwrap_or_default();
            for lane in &mut queue.lanes {
                lane.cursors = cursors.remove(&(name.clone(), lane.name.clone())).unwrap_or_default();
            }
        }
    }
}

fn refused<T: std::fmt::Debug>(answer: &Result<T, Refused>, with: &str) -> Check {
    let fits = matches!(answer, Err(Refused::NotFound(text)) if text == with);
    ensure!(fits, "answered {answer:?}, expected {with:?}");
    Ok(())
}

/// Numbers out of range are cut to it, `null` is the default, a lease of no length is a minute.
fn set(options: &mut QueueOptions, name: &str, value: &Value) {
    let default = QueueOptions::default();
    let number = |default: u64| value.as_i64().map_or(default, |n| n.max(0).unsigned_abs());
    match name {
        "leaseTime" => {
            options.lease_time = match value.as_i64() {
                None => default.lease_time,
                Some(0) => 60,
                Some(n) => n.max(1).unsigned_abs(),
            }
        }
        "retryLimit" => options.retry_limit = number(default.retry_limit),
        "retryDelay" => options.retry_delay = number(default.retry_delay),
        "ttl" => options.ttl = number(default.ttl),
        "priority" => options.priority = value.as_i64().unwrap_or_default(),
        "dedupWindowSeconds" => options.dedup_window_seconds = number(default.dedup_window_seconds),
        "delayedProcessing" => options.delayed_processing = number(0),
        "windowBuffer" => options.window_buffer = number(0),
        "deadLetterQueue" => options.dead_letter_queue = value.as_bool().unwrap_or(true),
        "dlqAfterMaxRetries" => options.dlq_after_max_retries = value.as_bool().unwrap_or(true),
        "enforce" => {
            let known = [(Enforced::RetryDelay, "retryDelay"), (Enforced::Priority, "priority")];
            let names = value.as_array().cloned().unwrap_or_default();
            let listed = known.into_iter().filter(|(_, name)| names.iter().any(|n| n == name));
            options.enforce = listed.map(|(enforced, _)| enforced).collect();
        }
        other => panic!("the model does not know option {other}"),
    }
}
