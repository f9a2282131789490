//! The files of the engine cut into regions, as `docs/format.md` describes them and without the engine's own code.
//!
//! Names say what must become of damage there: records of files below the checkpoint ("sealed") are not replayed any more, and
//! the last record of all cannot be told from one that was never finished.

use bugle_disk::{Region, Ruler, SimDisk};

const PAGE: usize = 4096;

/// Every byte of every file.
pub(crate) fn regions(disk: &SimDisk) -> Vec<Region> {
    let files = disk.files();
    let id_of = |name: &str| name.split(['-', '.']).nth(1).and_then(|id| id.parse::<u64>().ok());
    let checkpoints = files.iter().filter(|(name, _)| name.starts_with("checkpoint-"));
    let start = checkpoints.filter_map(|(name, _)| id_of(name)).max().unwrap_or(0);
    let last = files.iter().filter(|(name, _)| name.ends_with(".log"));
    let last = last.flat_map(|(name, _)| sequence(disk, name)).max().unwrap_or(0);
    let mut all = Vec::new();
    for (name, len) in files.iter().filter(|(_, len)| *len > 0) {
        let ruler = Ruler::new(disk, name);
        all.extend(match name.rsplit('.').next().unwrap_or_default() {
            "FORMAT" => ruler.finish("format"),
            "log" => log(ruler, id_of(name).is_some_and(|id| id < start), last),
            "idx" => table(ruler, 36, 16),
            "fps" => table(ruler, 24, 24),
            "snap" => checkpoint(ruler),
            "free" => ruler.finish("free: unused"),
            _ => panic!("{name} with {len} bytes is in no description"),
        });
    }
    all
}

/// Whether a record of this life of the file begins here.
fn is_record(bytes: &[u8], id: &[u8]) -> bool {
    bytes.starts_with(b"BGLR") && bytes.get(24..32) == Some(id)
}

/// Numbers of the records in a log file.
fn sequence(disk: &SimDisk, name: &str) -> Vec<usize> {
    let mut ruler = Ruler::new(disk, name);
    let id = ruler.field("header", PAGE)[16..24].to_vec();
    let mut numbers = Vec::new();
    while is_record(ruler.rest(), &id) {
        ruler.field("front", 8);
        let len = ruler.number("length", 4);
        ruler.field("changes", 4);
        numbers.push(ruler.number("seq", 8));
        ruler.field("rest", len.next_multiple_of(PAGE) - 24);
    }
    numbers
}

fn log(mut ruler: Ruler, sealed: bool, last: usize) -> Vec<Region> {
    let header = [("magic", 8), ("version", 4), ("zero", 4), ("id", 8), ("salt", 8), ("size", 8)];
    let id = ruler.rest()[16..24].to_vec();
    ruler.fields("log header", &header);
    ruler.fields("log header", &[("zeroes", 16), ("checksum", 8)]);
    ruler.field("log header page: unused", PAGE - 64);
    while is_record(ruler.rest(), &id) {
        let seq = u64::from_le_bytes(ruler.rest()[16..24].try_into().unwrap());
        let role = match (sealed, seq == last as u64) {
            (true, _) => "sealed record",
            (false, true) => "last record",
            (false, false) => "record",
        };
        record(&mut ruler, role);
    }
    ruler.finish("log: unused")
}

fn record(ruler: &mut Ruler, role: &str) {
    let start = ruler.at();
    ruler.fields(role, &[("magic", 4), ("version", 4)]);
    let len = ruler.number(&format!("{role}: length"), 4);
    let changes = ruler.number(&format!("{role}: length of changes"), 4);
    ruler.fields(role, &[("seq", 8), ("file", 8)]);
    let frames = ruler.number(&format!("{role}: frames"), 4);
    let rest = [("count of changes", 4), ("time", 8), ("zero", 8), ("checksum", 8), ("changes", changes)];
    ruler.fields(role, &rest);
    for _ in 0..frames {
        frame(ruler, role);
    }
    assert_eq!(ruler.at(), start + len, "a record is as long as it says");
    ruler.field(&format!("{role} padding: unused"), len.next_multiple_of(PAGE) - len);
}

fn frame(ruler: &mut Ruler, role: &str) {
    let role = format!("{role} frame");
    ruler.field(&format!("{role}: checksum"), 4);
    let body = ruler.number(&format!("{role}: length of body"), 4);
    ruler.field(&format!("{role}: count"), 4);
    let prints = ruler.number(&format!("{role}: count of fingerprints"), 4);
    let rest = [("uid", 8), ("base", 8), ("segment id", 8), ("time", 8), ("greatest", 16)];
    ruler.fields(&role, &rest);
    ruler.fields(&role, &[("fingerprints", 8 * prints), ("body", body)]);
}

fn table(mut ruler: Ruler, entry: usize, key: usize) -> Vec<Region> {
    ruler.fields("table header", &[("magic", 8), ("version", 4), ("kind", 4), ("log id", 8), ("salt", 8)]);
    let entries = ruler.number("table header: entries", 8);
    ruler.fields("table header", &[("entry length", 4), ("key length", 4)]);
    let bloom = ruler.number("table header: length of filter", 8);
    ruler.field("table header: checksum", 8);
    ruler.field("table header page: unused", PAGE - 64);
    let per_page = (PAGE - 4) / entry;
    let pages = entries.div_ceil(per_page);
    for page in 0..pages {
        let used = (entries - page * per_page).min(per_page) * entry;
        ruler.fields("table page", &[("entries", used), ("zeroes", PAGE - 4 - used), ("checksum", 4)]);
    }
    ruler.fields("table footer", &[("first keys", pages * key), ("filter", bloom), ("checksum", 8)]);
    assert!(ruler.rest().is_empty(), "a table ends with its footer");
    ruler.finish("nothing")
}

fn checkpoint(mut ruler: Ruler) -> Vec<Region> {
    ruler.fields("checkpoint head", &[("magic", 8), ("version", 4), ("zero", 4)]);
    while ruler.rest().len() > 48 {
        let len = ruler.number("checkpoint chunk: length", 4);
        ruler.fields("checkpoint chunk", &[("checksum", 4), ("content", len)]);
    }
    let footer = [("magic", 8), ("start file", 8), ("start seq", 8), ("end seq", 8), ("chunks", 4)];
    ruler.fields("checkpoint footer", &footer);
    ruler.fields("checkpoint footer", &[("version", 4), ("checksum", 8)]);
    ruler.finish("nothing")
}
