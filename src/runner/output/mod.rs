//! Reading the output that a shim has logged: bytes by their offset since the engine's start, and when they came.
//!
//! Only reads: the shim alone writes, appends and drops the oldest. So a reader may come and go as it likes, and an
//! offset is all that it must remember.

mod cutter;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) use cutter::{Cutter, Line};

use crate::runner::shim::wire::{ERRORS, ERRORS_OLD, TIME_BYTES, parse_segment, segment_name, times_name};
use crate::time::Ms;

/// How many of the last lines of standard error are told.
const LAST_LINES: usize = 20;
/// How many bytes of standard error are looked at for them.
const LAST_BYTES: u64 = 16 * 1024;

/// What lies at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing any more: what is kept begins only there.
    Gap(u64),
    /// Nothing yet.
    Nothing,
}

/// Reads at most `most` bytes from the offset `at` on.
///
/// # Errors
/// When the folder cannot be read; then it is not known what lies there.
pub(crate) fn read(folder: &Path, at: u64, most: usize) -> io::Result<Piece> {
    let bases = segments(folder)?;
    let Some(base) = bases.iter().copied().rfind(|base| *base <= at) else {
        return Ok(bases.first().map_or(Piece::Nothing, |first| Piece::Gap(*first)));
    };
    let bytes = match File::open(folder.join(segment_name(base))) {
        Ok(file) => read_at(&file, at - base, most)?,
        // It was dropped this very moment, or all of them were moved: only another look tells.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !segments(folder)?.contains(&base) => {
            return read(folder, at, most);
        }
        Err(error) => return Err(error),
    };
    if !bytes.is_empty() {
        return Ok(Piece::Bytes(bytes));
    }
    // A later segment begins where this one ends, unless something was lost between them.
    Ok(bases.iter().copied().find(|base| *base > at).map_or(Piece::Nothing, Piece::Gap))
}

fn read_at(file: &File, at: u64, most: usize) -> io::Result<Vec<u8>> {
    // No more room than there is to read: most of the time that is one line, and each reader would hold `most` for it.
    let there = usize::try_from(file.metadata()?.len().saturating_sub(at)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; there.min(most)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Returns where the output that is kept ends; none when there is none.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn head(folder: &Path) -> io::Result<Option<u64>> {
    let Some(base) = segments(folder)?.last().copied() else { return Ok(None) };
    Ok(Some(base + fs::metadata(folder.join(segment_name(base)))?.len()))
}

fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bases = Vec::new();
    for entry in entries {
        bases.extend(entry?.file_name().to_str().and_then(parse_segment));
    }
    bases.sort_unstable();
    Ok(bases)
}

/// When the bytes of an engine's output came, for those who read them later.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Times(Vec<(u64, Ms)>);

impl Times {
    /// Reads when the bytes behind `from` came. What cannot be read is not known, which makes a session look younger.
    #[must_use]
    pub(crate) fn read(folder: &Path, from: u64) -> Self {
        let mut all = Vec::new();
        let bases = segments(folder).unwrap_or_default();
        let first = bases.iter().copied().rfind(|base| *base <= from);
        for base in bases.into_iter().filter(|base| Some(*base) >= first) {
            let bytes = fs::read(folder.join(times_name(base))).unwrap_or_default();
            all.extend(bytes.chunks_exact(TIME_BYTES).filter_map(record).filter(|(end, _)| *end > from));
        }
        Self(all)
    }

    /// Returns when the bytes before `end` had come, at the latest; none when that is not known.
    #[must_use]
    pub(crate) fn at(&self, end: u64) -> Option<Ms> {
        let later = self.0.partition_point(|(known, _)| *known < end);
        self.0.get(later).map(|(_, at)| *at)
    }
}

fn record(bytes: &[u8]) -> Option<(u64, Ms)> {
    let (end, at) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*end), Ms::from_le_bytes(*at.first_chunk::<8>()?)))
}

/// Returns the last lines of standard error in a session's folder; empty when there are none or they cannot be read.
#[must_use]
pub(crate) fn complaints(folder: &Path) -> String {
    let mut text = tail(&folder.join(ERRORS));
    if text.lines().count() < LAST_LINES {
        text = tail(&folder.join(ERRORS_OLD)) + &text;
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
}

fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(folder: &Path, at: u64) -> Piece {
        read(folder, at, 100).unwrap()
    }

    #[test]
    fn bytes_are_found_by_their_offset_and_what_was_dropped_is_told() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        assert_eq!(read(&folder.join("none"), 0, 10).unwrap(), Piece::Nothing);
        fs::write(folder.join(segment_name(10)), "hello").unwrap();
        fs::write(folder.join(segment_name(15)), "world").unwrap();
        assert_eq!(bytes(folder, 0), Piece::Gap(10));
        assert_eq!(bytes(folder, 12), Piece::Bytes(b"llo".to_vec()));
        assert_eq!(bytes(folder, 15), Piece::Bytes(b"world".to_vec()));
        assert_eq!(bytes(folder, 20), Piece::Nothing);
        assert_eq!((head(folder).unwrap(), head(&folder.join("none")).unwrap()), (Some(20), None));
        fs::write(folder.join(segment_name(30)), "x").unwrap();
        assert_eq!(bytes(folder, 20), Piece::Gap(30), "a hole is told");
    }

    #[test]
    fn a_folder_that_is_moved_while_it_is_read_has_no_hole() {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (home.path().join("here"), home.path().join("there"));
        fs::create_dir(&here).unwrap();
        for base in 0..50 {
            fs::write(here.join(segment_name(base * 5)), "hello").unwrap();
        }
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    fs::rename(&here, &there).unwrap();
                    fs::rename(&there, &here).unwrap();
                }
                done.store(true, std::sync::atomic::Ordering::Release);
            });
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                // Moved away and back within one look is an error, never a hole.
                if let Ok(piece) = read(&here, 20, 5) {
                    assert!(matches!(piece, Piece::Nothing) || piece == Piece::Bytes(b"hello".to_vec()), "{piece:?}");
                }
            }
        });
    }

    #[test]
    fn times_tell_when_a_byte_had_come_at_the_latest() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(segment_name(0)), "x").unwrap();
        let record = |end: u64, at: Ms| [end.to_le_bytes(), at.to_le_bytes()].concat();
        let torn = [record(10, 100), record(20, 200), vec![1, 2, 3]].concat();
        fs::write(home.path().join(times_name(0)), torn).unwrap();
        let times = Times::read(home.path(), 5);
        assert_eq!([1, 10, 11, 20, 21].map(|end| times.at(end)), [Some(100), Some(100), Some(200), Some(200), None]);
        assert_eq!(Times::read(home.path(), 10).at(10), Some(200), "only what is read again is looked up");
    }

    #[test]
    fn the_last_complaints_are_told_across_the_change_of_files() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(complaints(home.path()), "");
        let numbers = |range: std::ops::Range<i32>| range.map(|n| format!("{n}\n")).collect::<String>();
        fs::write(home.path().join(ERRORS_OLD), numbers(0..30)).unwrap();
        fs::write(home.path().join(ERRORS), numbers(30..35)).unwrap();
        let told = complaints(home.path());
        assert!(told.starts_with("15\n") && told.ends_with("\n34"), "{told}");
    }
}
