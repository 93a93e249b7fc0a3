//! Reading the output that a shim has logged: bytes by their offset since the engine's start, and when they came.
//!
//! Only reads: the shim alone writes, appends and drops the oldest. So a reader may come and go as it likes, and an
//! offset is all that it must remember.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::runner::shim::wire::{ERRORS, ERRORS_OLD, parse_segment, segment_name, times_name};
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
    let mut bytes = vec![0; most];
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
            all.extend(bytes.chunks_exact(16).filter_map(record).filter(|(end, _)| *end > from));
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

/// Splits output into lines with the offset at which each ends; bytes of an unfinished one are kept until it is whole.
#[derive(Debug)]
pub(crate) struct Cutter {
    /// Up to here whole lines were given out.
    done: u64,
    /// What came behind that.
    rest: Vec<u8>,
    /// The rest is so long that its beginning was dropped; so many bytes are gone.
    dropped: u64,
    /// Bytes up to the next end of a line belong to a line whose beginning was lost.
    torn: bool,
    /// Where the last such line ended.
    whole_from: u64,
}

/// A longer line is dropped but for the fact that it came.
pub(crate) const LINE_MOST: usize = 16 * 1024 * 1024;

/// A line of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where it ends, its end included.
    pub(crate) end: u64,
    /// What it says, without its end; none when it was too long.
    pub(crate) text: Option<Vec<u8>>,
}

impl Cutter {
    /// Begins at the offset `at`, the end of a line.
    #[must_use]
    pub(crate) fn at(at: u64) -> Self {
        Self { done: at, rest: Vec::new(), dropped: 0, torn: false, whole_from: at }
    }

    /// Returns up to where whole lines were given out.
    #[must_use]
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Returns what is to be read next.
    #[must_use]
    pub(crate) fn next(&self) -> u64 {
        self.done + self.dropped + self.rest.len() as u64
    }

    /// Returns whether something came that has not ended yet.
    #[must_use]
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.is_empty() || self.dropped > 0
    }

    /// Returns where whole lines go on after what was lost; none as long as that has not come yet.
    #[must_use]
    pub(crate) fn whole_from(&self) -> Option<u64> {
        (!self.torn).then_some(self.whole_from)
    }

    /// Takes in that everything up to `to` is lost; what follows may be the rest of a line.
    pub(crate) fn skip(&mut self, to: u64) {
        *self = Self { torn: true, ..Self::at(to) };
    }

    /// Takes in the bytes at [`Cutter::next`], and returns the lines that they end.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = bytes.split_at(end);
            self.add(line);
            lines.extend(self.finish(1));
            bytes = behind.get(1..).unwrap_or_default();
        }
        self.add(bytes);
        lines
    }

    /// Returns what came without an end, as a line of its own: nothing comes any more.
    pub(crate) fn last(&mut self) -> Option<Line> {
        if self.has_rest() { self.finish(0) } else { None }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.dropped > 0 || self.rest.len() + bytes.len() > LINE_MOST {
            self.dropped += (self.rest.len() + bytes.len()) as u64;
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self, end: u64) -> Option<Line> {
        self.done = self.next() + end;
        let text = std::mem::take(&mut self.rest);
        let whole = self.dropped == 0;
        self.dropped = 0;
        let torn = std::mem::take(&mut self.torn);
        if torn {
            self.whole_from = self.done;
        }
        (!torn).then(|| Line { end: self.done, text: whole.then_some(text) })
    }
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
    fn each_line_tells_where_it_ends_however_its_bytes_come() {
        let text = b"one\n\ntwo\r\nlast";
        for size in 1..text.len() {
            let mut cutter = Cutter::at(100);
            let mut lines: Vec<Line> = text.chunks(size).flat_map(|chunk| cutter.push(chunk)).collect();
            assert_eq!((cutter.done(), cutter.next(), cutter.has_rest()), (110, 114, true), "{size}");
            lines.extend(cutter.last());
            let told: Vec<_> = lines.iter().map(|line| (line.end, line.text.as_deref().unwrap())).collect();
            let expected: Vec<(u64, &[u8])> = vec![(104, b"one"), (105, b""), (110, b"two\r"), (114, b"last")];
            assert_eq!(told, expected, "{size}");
            assert_eq!(cutter.last(), None);
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_no_memory_and_hides_no_other() {
        let mut cutter = Cutter::at(0);
        let part = vec![b'x'; LINE_MOST / 2];
        for _ in 0..5 {
            assert!(cutter.push(&part).is_empty());
        }
        assert!(cutter.rest.capacity() <= LINE_MOST && cutter.has_rest());
        let lines = cutter.push(b"\nnext\n");
        let long = 5 * (LINE_MOST as u64 / 2) + 1;
        assert_eq!(lines, [Line { end: long, text: None }, Line { end: long + 5, text: Some(b"next".to_vec()) }]);
    }

    #[test]
    fn the_rest_of_a_line_whose_beginning_was_lost_is_no_line() {
        let mut cutter = Cutter::at(0);
        cutter.push(b"lost beg");
        cutter.skip(50);
        assert_eq!(cutter.whole_from(), None);
        let lines = cutter.push(b"inning\nwhole\n");
        assert_eq!(lines, [Line { end: 63, text: Some(b"whole".to_vec()) }]);
        assert_eq!(cutter.whole_from(), Some(57));
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
