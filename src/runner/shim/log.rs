//! The engine's output on disk: segments that are named by the offset of their first byte, and when their bytes came.
//!
//! Raw bytes; nothing here knows what a line is. Nothing is held in memory: what was taken is in the file.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::runner::files;
use crate::runner::shim::stream::Sink;
use crate::runner::shim::wire::{TIME_BYTES, segment_name, times_name};
use crate::time::{Ms, SECOND};

/// How finely the times of output are kept.
const WINDOW: Ms = SECOND;

/// A log that is written from its beginning.
#[derive(Debug)]
pub(crate) struct Log {
    folder: PathBuf,
    segment_bytes: u64,
    most: u64,
    /// The first offsets of the segments that are kept, the last of which is being written.
    segments: VecDeque<u64>,
    current: Option<Segment>,
    head: u64,
}

#[derive(Debug)]
struct Segment {
    base: u64,
    bytes: File,
    times: File,
    /// How many records are in `times`.
    recorded: u64,
    /// What the next record says, and since when it gathers.
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Ms,
    end: u64,
    last: Ms,
}

impl Log {
    /// Makes an empty log in `folder`, which keeps at most about `most` bytes.
    #[must_use]
    pub(crate) fn new(folder: &Path, segment_bytes: u64, most: u64) -> Self {
        let segment_bytes = segment_bytes.max(1);
        Self { folder: folder.to_owned(), segment_bytes, most, segments: VecDeque::new(), current: None, head: 0 }
    }

    /// Returns the offset of the first byte that is kept.
    #[must_use]
    pub(crate) fn base(&self) -> u64 {
        self.segments.front().copied().unwrap_or(0)
    }

    /// Returns the offset behind the last byte.
    #[must_use]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Writes down when the last bytes came. One that fails says so later, and more coarsely.
    pub(crate) fn flush(&mut self) {
        if let Some(segment) = &mut self.current {
            segment.flush();
        }
    }

    /// Brings everything to the disk, as well as that can be done.
    pub(crate) fn sync(&mut self) {
        self.flush();
        if let Some(segment) = &self.current {
            // A machine that loses its power now has ended the engine anyway.
            let _ = segment.bytes.sync_data();
        }
    }

    fn segment(&mut self) -> io::Result<&mut Segment> {
        if self.current.as_ref().is_some_and(|it| self.head - it.base >= self.segment_bytes) {
            self.flush();
            self.current = None;
        }
        if self.current.is_none() {
            let opened = Segment::open(&self.folder, self.head)?;
            self.segments.push_back(self.head);
            self.current = Some(opened);
        }
        self.current.as_mut().ok_or_else(|| io::Error::other("there is no segment"))
    }

    /// Removes the oldest segments while there is more than may be kept; never the one that is written.
    fn shed(&mut self) {
        while let [oldest, _, ..] = *self.segments.make_contiguous() {
            let over = self.head - oldest > self.most;
            if !over || !gone(&self.folder.join(segment_name(oldest))) {
                break;
            }
            gone(&self.folder.join(times_name(oldest)));
            self.segments.pop_front();
        }
    }
}

impl Sink for Log {
    fn put(&mut self, bytes: &[u8], now: Ms) -> io::Result<usize> {
        let (head, most) = (self.head, self.segment_bytes);
        let segment = self.segment()?;
        let room = usize::try_from(most - (head - segment.base)).unwrap_or(usize::MAX);
        let part = bytes.get(..bytes.len().min(room)).unwrap_or(bytes);
        // At its own place, so that a repeated write doubles nothing.
        let written = segment.bytes.write_at(part, head - segment.base)?;
        self.head += written as u64;
        let head = self.head;
        if let Some(segment) = &mut self.current {
            segment.came(head, now);
        }
        self.shed();
        Ok(written)
    }
}

impl Segment {
    fn open(folder: &Path, base: u64) -> io::Result<Self> {
        files::make_folder(folder)?;
        let open = |name: String| {
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(folder.join(name))
        };
        Ok(Self { base, times: open(times_name(base))?, bytes: open(segment_name(base))?, recorded: 0, window: None })
    }

    fn came(&mut self, end: u64, now: Ms) {
        if self.window.is_some_and(|window| now - window.began >= WINDOW) {
            self.flush();
        }
        let began = self.window.map_or(now, |window| window.began);
        self.window = Some(Window { began, end, last: now });
    }

    fn flush(&mut self) {
        let Some(window) = self.window else { return };
        let mut record = [0; TIME_BYTES];
        let (end, last) = record.split_at_mut(TIME_BYTES / 2);
        end.copy_from_slice(&window.end.to_le_bytes());
        last.copy_from_slice(&window.last.to_le_bytes());
        // At its own place: one that was written in part is written over.
        if self.times.write_all_at(&record, self.recorded * TIME_BYTES as u64).is_ok() {
            self.recorded += 1;
            self.window = None;
        }
    }
}

fn gone(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(log: &mut Log, mut bytes: &[u8], now: Ms) {
        while !bytes.is_empty() {
            let written = log.put(bytes, now).unwrap();
            bytes = &bytes[written..];
        }
    }

    fn times(folder: &Path, base: u64) -> Vec<(u64, i64)> {
        let bytes = fs::read(folder.join(times_name(base))).unwrap();
        let number = |part: &[u8]| u64::from_le_bytes(part.try_into().unwrap());
        bytes.chunks_exact(16).map(|it| (number(&it[..8]), i64::try_from(number(&it[8..])).unwrap())).collect()
    }

    #[test]
    fn segments_are_cut_at_their_size_and_the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), 10, 25);
        put(&mut log, b"0123456789abcdefghij0123", 0);
        assert_eq!((log.base(), log.head()), (0, 24));
        assert_eq!(fs::read(folder.path().join(segment_name(10))).unwrap(), b"abcdefghij");
        put(&mut log, b"45", 0);
        assert_eq!((log.base(), log.head()), (10, 26));
        assert!(!folder.path().join(segment_name(0)).exists() && !folder.path().join(times_name(0)).exists());
        assert_eq!(fs::read(folder.path().join(segment_name(20))).unwrap(), b"012345");
    }

    #[test]
    fn the_segment_that_is_written_stays_however_little_may_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), 100, 1);
        put(&mut log, b"0123456789", 0);
        assert_eq!((log.base(), log.head()), (0, 10));
    }

    #[test]
    fn a_record_says_when_all_before_it_had_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), 100, 1_000);
        put(&mut log, b"aa", 5_000);
        put(&mut log, b"bb", 5_999);
        assert_eq!(times(folder.path(), 0), []);
        put(&mut log, b"cc", 6_000);
        assert_eq!(times(folder.path(), 0), [(4, 5_999)]);
        log.flush();
        log.flush();
        assert_eq!(times(folder.path(), 0), [(4, 5_999), (6, 6_000)]);
    }

    #[test]
    fn a_folder_that_was_removed_is_made_again_with_the_next_segment() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut log = Log::new(&out, 4, 1_000);
        put(&mut log, b"0123", 0);
        fs::remove_dir_all(&out).unwrap();
        put(&mut log, b"4567", 0);
        assert_eq!(fs::read(out.join(segment_name(4))).unwrap(), b"4567");
    }
}
