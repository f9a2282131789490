//! Sorted tables of fixed-size entries: what a sealed log file's index is on disk.
//!
//! Keys are big-endian, so that order is byte order. A look-up needs one key per page (the fences) and a bloom filter, then
//! reads one page and checks its checksum. Fences and filter can be released from memory: then every look-up loads them
//! for itself, and checks them again.

use std::io;
use std::sync::Arc;

use bugle_disk::{DiskFile, read_exact};
use bytes::BufMut;
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::codec::Fields;
use crate::record::PAGE;

const MAGIC: [u8; 8] = *b"BUGLETBL";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const PAGE_LEN: usize = PAGE as usize;
const BLOOM_BITS: usize = 10;
const BLOOM_PROBES: u32 = 7;

/// What a table is of; fixed by its file's suffix and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: u32,
    pub(crate) entry_len: usize,
    pub(crate) key_len: usize,
}

impl Shape {
    fn per_page(self) -> usize {
        (PAGE_LEN - 4) / self.entry_len
    }
}

/// An open table.
pub(crate) struct Table {
    name: String,
    file: Arc<dyn DiskFile>,
    shape: Shape,
    salt: u64,
    entries: usize,
    bloom_len: usize,
    footer: RwLock<Option<Arc<Footer>>>,
}

/// Fences and bloom filter, in one piece as they are in the file.
struct Footer {
    bytes: Box<[u8]>,
    fences_len: usize,
}

/// A table and what a look-up in it needs.
pub(crate) struct Look<'a> {
    table: &'a Table,
    footer: Arc<Footer>,
}

/// The bytes of a table. `entries` are sorted and concatenated; `members` go into the bloom filter.
pub(crate) fn build(shape: Shape, file: u64, salt: u64, entries: &[u8], members: &[u64]) -> Vec<u8> {
    let count = entries.len() / shape.entry_len;
    let bloom = build_bloom(members);
    let mut out = Vec::with_capacity(entries.len() + entries.len() / 16 + bloom.len() + 2 * PAGE_LEN);
    out.put_slice(&MAGIC);
    out.put_u32_le(VERSION);
    out.put_u32_le(shape.kind);
    out.put_u64_le(file);
    out.put_u64_le(salt);
    out.put_u64_le(count as u64);
    out.put_u32_le(shape.entry_len as u32);
    out.put_u32_le(shape.key_len as u32);
    out.put_u64_le(bloom.len() as u64);
    out.resize(PAGE_LEN, 0);
    seal_header(&mut out, salt);
    let mut footer = Vec::new();
    for (number, page) in entries.chunks(shape.per_page() * shape.entry_len).enumerate() {
        let start = out.len();
        footer.put_slice(&page[..shape.key_len]);
        out.put_slice(page);
        out.resize(start + PAGE_LEN - 4, 0);
        let sum = page_checksum(salt, number, &out[start..]);
        out.put_u32_le(sum);
    }
    footer.put_slice(&bloom);
    out.put_slice(&footer);
    out.put_u64_le(xxh3_64_with_seed(&footer, salt));
    out
}

/// Put the right checksum into the header at the front of `table`.
pub(crate) fn seal_header(table: &mut [u8], salt: u64) {
    let sum = xxh3_64_with_seed(&table[..HEADER - 8], salt);
    table[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
}

fn page_checksum(salt: u64, number: usize, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&(salt ^ number as u64).to_le_bytes()), bytes)
}

impl Table {
    /// Open a table and load its fences and filter. `None` = it is not the table of this log file, or is damaged.
    pub(crate) fn open(
        name: &str,
        file: Arc<dyn DiskFile>,
        shape: Shape,
        log: u64,
        salt: u64,
    ) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if file.read_at(&mut header, 0)? != HEADER {
            return Ok(None);
        }
        let Some((entries, bloom_len)) = check_header(&header, shape, log, salt) else { return Ok(None) };
        let len = usize::try_from(file.size()?).unwrap_or(usize::MAX);
        if entries > len / shape.entry_len || bloom_len > len {
            return Ok(None);
        }
        let footer = RwLock::new(None);
        let table = Self { name: name.to_owned(), file, shape, salt, entries, bloom_len, footer };
        if table.file.size()? != table.footer_position() + (table.footer_len() + 8) as u64 {
            return Ok(None);
        }
        let Some(footer) = table.load()? else { return Ok(None) };
        *table.footer.write() = Some(Arc::new(footer));
        Ok(Some(table))
    }

    fn pages(&self) -> usize {
        self.entries.div_ceil(self.shape.per_page())
    }

    fn footer_position(&self) -> u64 {
        PAGE + (self.pages() * PAGE_LEN) as u64
    }

    /// Bytes in memory while the footer is not released.
    pub(crate) fn footer_len(&self) -> usize {
        self.pages() * self.shape.key_len + self.bloom_len
    }

    /// Read fences and filter. `None` = damaged.
    fn load(&self) -> io::Result<Option<Footer>> {
        let len = self.footer_len();
        let mut bytes = vec![0; len].into_boxed_slice();
        let mut sum = [0; 8];
        read_exact(&*self.file, &mut bytes, self.footer_position())?;
        read_exact(&*self.file, &mut sum, self.footer_position() + len as u64)?;
        let whole = sum == xxh3_64_with_seed(&bytes, self.salt).to_le_bytes();
        Ok(whole.then_some(Footer { bytes, fences_len: len - self.bloom_len }))
    }

    /// Keep fences and filter out of memory from now on.
    pub(crate) fn release(&self) {
        self.footer.write().take();
    }

    /// Begin to look things up.
    pub(crate) fn look(&self) -> io::Result<Look<'_>> {
        let resident = self.footer.read().clone();
        let footer = match resident {
            Some(footer) => footer,
            None => Arc::new(self.load()?.ok_or_else(|| self.damaged(self.footer_position()))?),
        };
        Ok(Look { table: self, footer })
    }

    fn damaged(&self, position: u64) -> io::Error {
        let what = format!("damaged: {} at {position}: remove it while stopped, it is rebuilt", self.name);
        io::Error::new(io::ErrorKind::InvalidData, what)
    }

    /// The entries of a page, checked.
    fn page(&self, number: usize) -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE_LEN];
        let position = PAGE * (number as u64 + 1);
        read_exact(&*self.file, &mut page, position)?;
        let sum = page_checksum(self.salt, number, &page[..PAGE_LEN - 4]);
        if page[PAGE_LEN - 4..] != sum.to_le_bytes() {
            return Err(self.damaged(position));
        }
        let per_page = self.shape.per_page();
        page.truncate((self.entries - number * per_page).min(per_page) * self.shape.entry_len);
        Ok(page)
    }
}

impl Look<'_> {
    /// Whether `member` may be in the table.
    pub(crate) fn may_contain(&self, member: u64) -> bool {
        let bloom = &self.footer.bytes[self.footer.fences_len..];
        let bits = (bloom.len() * 8) as u64;
        bits > 0 && bloom_bits(member, bits).all(|bit| bloom[(bit / 8) as usize] & (1 << (bit % 8)) != 0)
    }

    /// The last entry whose key is not above `key`.
    pub(crate) fn at_or_below(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some(number) = self.page_of(key) else { return Ok(None) };
        let page = self.table.page(number)?;
        let entries = page.chunks_exact(self.table.shape.entry_len);
        Ok(entries.take_while(|entry| &entry[..self.table.shape.key_len] <= key).last().map(<[u8]>::to_vec))
    }

    /// Visit entries from `key` on, in order, until `visit` says no.
    pub(crate) fn visit_from(&self, key: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let first = self.page_of(key).unwrap_or(0);
        for number in first..self.table.pages() {
            let page = self.table.page(number)?;
            for entry in page.chunks_exact(self.table.shape.entry_len) {
                if &entry[..self.table.shape.key_len] >= key && !visit(entry) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The last page that starts at or below `key`.
    fn page_of(&self, key: &[u8]) -> Option<usize> {
        let key_len = self.table.shape.key_len;
        let fence = |n: usize| &self.footer.bytes[n * key_len..(n + 1) * key_len];
        let (mut low, mut high) = (0, self.footer.fences_len / key_len);
        while low < high {
            let middle = (low + high) / 2;
            if fence(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }
}

fn check_header(header: &[u8], shape: Shape, log: u64, salt: u64) -> Option<(usize, usize)> {
    let mut fields = Fields(header);
    let known = fields.bytes(8).ok()? == MAGIC
        && fields.u32().ok()? == VERSION
        && fields.u32().ok()? == shape.kind
        && fields.u64().ok()? == log
        && fields.u64().ok()? == salt;
    let entries = usize::try_from(fields.u64().ok()?).ok()?;
    let fits = fields.u32().ok()? as usize == shape.entry_len && fields.u32().ok()? as usize == shape.key_len;
    let bloom_len = usize::try_from(fields.u64().ok()?).ok()?;
    let whole = fields.u64().ok()? == xxh3_64_with_seed(&header[..HEADER - 8], salt);
    (known && fits && whole).then_some((entries, bloom_len))
}

fn build_bloom(members: &[u64]) -> Vec<u8> {
    let bytes = (members.len() * BLOOM_BITS).div_ceil(8);
    let mut bloom = vec![0u8; bytes];
    for member in members {
        for bit in bloom_bits(*member, (bytes * 8) as u64) {
            bloom[(bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    bloom
}

fn bloom_bits(member: u64, bits: u64) -> impl Iterator<Item = u64> {
    let hash = mix(member, 0);
    let step = (hash >> 32) | 1;
    (0..u64::from(BLOOM_PROBES)).map(move |i| hash.wrapping_add(i.wrapping_mul(step)) % bits)
}

/// Two numbers hashed into one.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut h = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h = (h ^ (h >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h = (h ^ (h >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ (h >> 33)
}
