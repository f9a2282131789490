//! A tar archive (POSIX ustar) of plain files, as much of the format as a backup needs.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};

const BLOCK: usize = 512;

/// An archive being written.
pub(crate) struct Archive {
    /// Seconds since 1970, for all files.
    time: u64,
    /// Bytes that the file which has begun still lacks.
    left: u64,
    /// Zeroes that fill its last block.
    padding: usize,
}

impl Archive {
    /// An archive of files of this moment.
    pub(crate) fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { time: now.as_secs(), left: 0, padding: 0 }
    }

    /// What goes before the bytes of a file of this size, and behind those of the file before.
    pub(crate) fn begin(&mut self, name: &str, size: u64) -> io::Result<Bytes> {
        let mut out = self.filled()?;
        out.extend_from_slice(&header(name, size, self.time)?);
        (self.left, self.padding) = (size, (size.next_multiple_of(BLOCK as u64) - size) as usize);
        Ok(out.freeze())
    }

    /// So many bytes of the file were written.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.left = self.left.wrapping_sub(bytes as u64);
    }

    /// What goes behind the last file.
    pub(crate) fn end(mut self) -> io::Result<Bytes> {
        let mut out = self.filled()?;
        out.put_bytes(0, 2 * BLOCK);
        Ok(out.freeze())
    }

    /// The rest of the last block. A file that is not as long as was said makes nonsense of all that follows.
    fn filled(&mut self) -> io::Result<BytesMut> {
        if self.left != 0 {
            return Err(io::Error::other("a file of the backup has another length than announced"));
        }
        let mut out = BytesMut::new();
        out.put_bytes(0, std::mem::take(&mut self.padding));
        Ok(out)
    }
}

fn header(name: &str, size: u64, time: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    if name.len() > 100 {
        return Err(io::Error::other("a file of the backup has too long a name"));
    }
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    if size < 1 << 33 {
        put(124, format!("{size:011o}\0").as_bytes());
    } else {
        // Eleven octal digits end at 8 GiB; beyond that all programs read a binary number behind this bit.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
    }
    put(136, format!("{time:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn other_programs_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let long = vec![7_u8; 1300];
        let files: [(&str, &[u8]); 4] =
            [("a", b"one"), ("spool/b", b""), ("c-0000000000000001.log", &long), ("z", &[1; 512])];
        let mut archive = Archive::now();
        let mut bytes = Vec::new();
        for (name, content) in files {
            bytes.extend_from_slice(&archive.begin(name, content.len() as u64).unwrap());
            bytes.extend_from_slice(content);
            archive.count(content.len());
        }
        bytes.extend_from_slice(&archive.end().unwrap());
        assert_eq!(bytes.len() % BLOCK, 0);
        let mut tar =
            Command::new("tar").arg("-x").current_dir(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
        io::Write::write_all(&mut tar.stdin.take().unwrap(), &bytes).unwrap();
        assert!(tar.wait().unwrap().success());
        for (name, content) in files {
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), content, "{name}");
        }
    }

    #[test]
    fn large_files_have_a_binary_length() {
        let block = header("x", 9 << 30, 0).unwrap();
        assert_eq!(block[124], 0x80);
        assert_eq!(u64::from_be_bytes(block[128..136].try_into().unwrap()), 9 << 30);
    }

    #[test]
    fn a_file_of_another_length_than_announced_is_an_error() {
        let mut archive = Archive::now();
        archive.begin("a", 3).unwrap();
        archive.count(2);
        assert!(archive.begin("b", 0).is_err());
    }
}
