//! Cutting output into lines: each with the offset at which it ends, however its bytes come. Pure.

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
const LINE_MOST: usize = 16 * 1024 * 1024;

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
        let lines = cutter.push(b"inning\nwhole\n");
        assert_eq!(lines, [Line { end: 63, text: Some(b"whole".to_vec()) }]);
    }
}
