//! The data directories of released versions: every kind of change and file is in them, so that opening them tries all.
//!
//! What is in them is read and written on through a server, by the black-box test `golden`, which also says how they are made.

use std::collections::BTreeSet;
use std::path::Path;

use crate::checkpoint;
use crate::log::{LogFile, checkpoint_name, number_in};
use crate::op::Op;
use crate::scan::Scan;
use bugle_disk::{Disk, OsDisk};

fn kind(op: &Op) -> u8 {
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    bytes[0]
}

/// Kinds of changes in all records and in the checkpoint.
fn kinds(disk: &dyn Disk) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    for name in disk.list().unwrap() {
        if let Some(id) = number_in(&name, "log-", ".log") {
            let log = LogFile::open(disk, id).unwrap();
            let mut scan = Scan::new(&log).unwrap();
            while let Some((record, _)) = scan.next().unwrap() {
                kinds.extend(record.ops.iter().map(kind));
            }
        } else if let Some(number) = number_in(&name, "checkpoint-", ".snap") {
            kinds.extend(checkpoint::kinds(disk, &checkpoint_name(number)));
        }
    }
    kinds
}

#[test]
fn every_kind_of_change_and_file_is_in_them() {
    for version in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")).unwrap() {
        let path = version.unwrap().path();
        let disk = OsDisk::new(path.clone());
        assert_eq!(kinds(&disk), (1..=15).collect(), "{}", path.display());
        let names = disk.list().unwrap();
        for end in [".log", ".idx", ".fps", ".snap", "FORMAT", "spool"] {
            assert!(names.iter().any(|name| name.ends_with(end)), "{end} in {}", path.display());
        }
        assert!(path.join("spool").read_dir().unwrap().count() > 0);
    }
}
