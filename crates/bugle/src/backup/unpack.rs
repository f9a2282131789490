//! Takes the archive of a backup apart while it arrives. It believes no name: files go into the directory or its `spool`.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::private_file;

const BLOCK: usize = 512;
const SPOOL: &str = "spool/";

/// Where it is in the archive.
enum At {
    /// A header is being gathered.
    Header(Vec<u8>),
    /// In a file, with so many bytes to come, and so many that fill its last block.
    File { file: File, left: u64, padding: u64 },
    /// The archive has ended; what follows are zeroes.
    End,
}

/// See the module.
pub(super) struct Unpack {
    dir: PathBuf,
    at: At,
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not the archive of a backup: {what}"))
}

impl Unpack {
    /// Into a new directory.
    pub(super) fn into(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        Ok(Self { dir: dir.to_owned(), at: At::Header(Vec::new()) })
    }

    /// The next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match &mut self.at {
                At::End => {
                    return if bytes.iter().all(|byte| *byte == 0) {
                        Ok(())
                    } else {
                        Err(nonsense("it goes on"))
                    };
                }
                At::Header(gathered) => {
                    let (some, rest) = bytes.split_at(bytes.len().min(BLOCK - gathered.len()));
                    gathered.extend_from_slice(some);
                    bytes = rest;
                    if gathered.len() == BLOCK {
                        let header = std::mem::take(gathered);
                        self.at = self.begin(&header)?;
                    }
                }
                At::File { file, left, padding } => {
                    let (some, rest) = bytes.split_at((*left).min(bytes.len() as u64) as usize);
                    file.write_all(some)?;
                    *left -= some.len() as u64;
                    let skipped = if *left == 0 { (*padding).min(rest.len() as u64) } else { 0 };
                    *padding -= skipped;
                    bytes = &rest[skipped as usize..];
                    if *left == 0 && *padding == 0 {
                        file.sync_all()?;
                        self.at = At::Header(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    /// Nothing more comes: is it whole, and on disk?
    pub(super) fn end(self) -> io::Result<()> {
        if !matches!(self.at, At::End) {
            return Err(nonsense("it ends in the middle"));
        }
        let spool = self.dir.join(SPOOL);
        if spool.is_dir() {
            File::open(spool)?.sync_all()?;
        }
        File::open(&self.dir)?.sync_all()
    }

    fn begin(&self, header: &[u8]) -> io::Result<At> {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(At::End);
        }
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum::<u32>()
            - header[148..156].iter().map(|byte| u32::from(*byte)).sum::<u32>()
            + 8 * u32::from(b' ');
        if octal(&header[148..156]) != Some(u64::from(sum)) || &header[257..262] != b"ustar" {
            return Err(nonsense("a header is damaged"));
        }
        if header[156] != b'0' {
            return Err(nonsense("there is something else than files in it"));
        }
        let name = header[..100].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| nonsense("a name"))?;
        let size = match header[124] {
            0x80 => u64::from_be_bytes(header[128..136].try_into().map_err(|_| nonsense("a length"))?),
            _ => octal(&header[124..136]).ok_or_else(|| nonsense("a length"))?,
        };
        let file = private_file(&self.place(name)?)?;
        if size == 0 {
            file.sync_all()?;
            return Ok(At::Header(Vec::new()));
        }
        Ok(At::File { file, left: size, padding: size.next_multiple_of(BLOCK as u64) - size })
    }

    fn place(&self, name: &str) -> io::Result<PathBuf> {
        let plain = name.strip_prefix(SPOOL).unwrap_or(name);
        let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if plain.is_empty() || plain.starts_with('.') || !plain.chars().all(known) {
            return Err(nonsense("a name"));
        }
        let spool = self.dir.join(SPOOL);
        if name.starts_with(SPOOL) && !spool.exists() {
            make_dir(&spool)?;
        }
        Ok(self.dir.join(name))
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)?;
    let absolute = fs::canonicalize(dir)?;
    absolute.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn archive(dir: &Path, names: &[&str]) -> Vec<u8> {
        let mut tar = Command::new("tar");
        tar.args(["-c", "--format=ustar", "-f", "-"]).args(names).current_dir(dir);
        tar.output().unwrap().stdout
    }

    #[test]
    fn what_another_program_packs_is_unpacked_however_it_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("spool")).unwrap();
        let files: [(&str, Vec<u8>); 4] =
            [("a", vec![1; 1300]), ("spool/b", vec![2; 512]), ("c", vec![]), ("FORMAT", b"x".to_vec())];
        files.iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
        let packed = archive(dir.path(), &["a", "spool/b", "c", "FORMAT"]);
        for size in [1, 7, 512, 5000] {
            let to = dir.path().join(format!("to-{size}"));
            let mut unpack = Unpack::into(&to).unwrap();
            packed.chunks(size).for_each(|piece| unpack.take(piece).unwrap());
            unpack.end().unwrap();
            files
                .iter()
                .for_each(|(name, bytes)| assert_eq!(fs::read(to.join(name)).unwrap(), *bytes, "{name}"));
        }
        for cut in [100, 600, 2000] {
            let mut unpack = Unpack::into(&dir.path().join(format!("cut-{cut}"))).unwrap();
            unpack.take(&packed[..cut]).unwrap();
            assert!(unpack.end().is_err(), "{cut}");
        }
    }

    #[test]
    fn nothing_is_written_outside() {
        let dir = tempfile::tempdir().unwrap();
        let unpack = Unpack::into(&dir.path().join("to")).unwrap();
        for name in ["", ".", "..", "../x", "/etc/x", "spool/../x", "a/b", "spool/", ".hidden", "a\nb"] {
            assert!(unpack.place(name).is_err(), "{name}");
        }
        assert!(unpack.place("spool/spool-1.log").is_ok());
    }

    #[test]
    fn a_damaged_header_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), b"x").unwrap();
        let mut packed = archive(dir.path(), &["a"]);
        packed[130] ^= 1;
        let mut unpack = Unpack::into(&dir.path().join("to")).unwrap();
        assert!(unpack.take(&packed).is_err());
    }
}
