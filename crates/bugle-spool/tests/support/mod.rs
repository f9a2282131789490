//! A spool on a simulated disk, and a spool's records in short form.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

pub(crate) mod model;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_spool::{FileSpool, OpenError, SpoolOptions};
use bugle_store::{Spool, Spooled};

/// Small files, so that there are many.
pub(crate) fn open(disk: &SimDisk) -> Result<Arc<FileSpool>, OpenError> {
    let options = SpoolOptions { file_bytes: 300, group_bytes: 200, ..SpoolOptions::new("unused") };
    FileSpool::open_on(Arc::new(disk.clone()), options)
}

/// The record of this number.
pub(crate) fn record(number: u64) -> Spooled {
    Spooled { lane: number % 5, body: format!("record {number}").into_bytes().into() }
}

/// The number of a record.
pub(crate) fn number(record: &Spooled) -> u64 {
    let text = std::str::from_utf8(&record.body).unwrap();
    text.strip_prefix("record ").unwrap().parse().unwrap()
}

/// Take everything out, in order.
pub(crate) async fn drain(spool: &FileSpool) -> Vec<u64> {
    let mut out = Vec::new();
    loop {
        let batch = spool.front(100).await.unwrap();
        if batch.records.is_empty() {
            return out;
        }
        out.extend(batch.records.iter().map(number));
        spool.done(batch).await.unwrap();
    }
}

/// Everything in a spool, without taking it out.
pub(crate) async fn look(spool: &FileSpool) -> Vec<u64> {
    spool.front(usize::MAX).await.unwrap().records.iter().map(number).collect()
}
