//! Files cut into regions by what their bytes mean, so that a bit can be flipped in each.
//!
//! The test of a format walks through its files with a [`Ruler`], field by field, as the description of the format does. Every
//! byte belongs to a region then, and none can be forgotten.

use std::collections::HashMap;
use std::ops::Range;

use super::SimDisk;

/// A part of a file that means one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Of this file.
    pub file: String,
    /// What it is; many regions of a file may be the same.
    pub name: String,
    /// Where it is.
    pub bytes: Range<usize>,
}

impl Region {
    /// Bits to flip, one for each byte, but of no more than `most` bytes: its ends, and others evenly between them.
    pub fn bits(&self, most: usize) -> impl Iterator<Item = usize> + use<> {
        let (start, len) = (self.bytes.start, self.bytes.len());
        let count = len.min(most);
        let nth = move |n: usize| if count < 2 { 0 } else { n * (len - 1) / (count - 1) };
        (0..count).map(move |n| {
            let byte = start + nth(n);
            byte * 8 + (byte * 5 + 3) % 8
        })
    }
}

/// Walks through a file.
pub struct Ruler {
    file: String,
    content: Vec<u8>,
    at: usize,
    regions: Vec<Region>,
}

impl Ruler {
    /// From the beginning of a file on.
    pub fn new(disk: &SimDisk, file: &str) -> Self {
        Self { file: file.to_owned(), content: disk.content(file), at: 0, regions: Vec::new() }
    }

    /// How far it is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What lies ahead.
    pub fn rest(&self) -> &[u8] {
        &self.content[self.at..]
    }

    /// The next bytes are this. Answers them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn field(&mut self, name: &str, len: usize) -> &[u8] {
        let bytes = self.at..self.at + len;
        assert!(bytes.end <= self.content.len(), "{} ends before the end of {name} at {bytes:?}", self.file);
        if len > 0 {
            let region = Region { file: self.file.clone(), name: name.to_owned(), bytes: bytes.clone() };
            self.regions.push(region);
        }
        self.at = bytes.end;
        &self.content[bytes]
    }

    /// The next bytes are this number, little-endian.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn number(&mut self, name: &str, len: usize) -> usize {
        let bytes = self.field(name, len);
        let number = bytes.iter().rev().fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
        usize::try_from(number).expect("a number that is a length")
    }

    /// The next bytes are these fields, each with its length.
    pub fn fields(&mut self, of: &str, fields: &[(&str, usize)]) {
        for (name, len) in fields {
            self.field(&format!("{of}: {name}"), *len);
        }
    }

    /// All regions; what lies ahead is this.
    pub fn finish(mut self, rest: &str) -> Vec<Region> {
        let len = self.rest().len();
        self.field(rest, len);
        self.regions
    }
}

/// Of regions of one name in one file only the first ones and the last, in their order.
pub fn some_of_each(regions: Vec<Region>, first: usize) -> Vec<Region> {
    let mut last: HashMap<(String, String), usize> = HashMap::new();
    for (index, region) in regions.iter().enumerate() {
        last.insert((region.file.clone(), region.name.clone()), index);
    }
    let mut seen: HashMap<(String, String), usize> = HashMap::new();
    let mut kept = Vec::new();
    for (index, region) in regions.into_iter().enumerate() {
        let key = (region.file.clone(), region.name.clone());
        let before = seen.entry(key.clone()).or_default();
        *before += 1;
        if *before <= first || last[&key] == index {
            kept.push(region);
        }
    }
    kept
}
