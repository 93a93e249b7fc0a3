//! `GET /coding/history`: pages of what an engine has said, as far as it is kept, while it lives and afterwards.

use std::collections::VecDeque;
use std::io;

use crate::protocol::{Cursor, Gap, HistoryAnswer, HistoryRequest, OutputLine};
use crate::runner::events::Source;
use crate::runner::output::{self, Cutter, Line, Piece};
use crate::runner::refusal::Refusal;
use crate::runner::{Runner, files};

/// How many lines a page holds when nothing is said, and at most.
const LINES: (u32, u32) = (200, 1_000);
/// How many bytes of lines a page holds; a longer line is only told to have come.
const BYTES: usize = 1024 * 1024;
/// How many bytes are read at once.
const CHUNK: usize = 64 * 1024;
/// How far back the newest lines are looked for at first, and at most: one line may be long.
const BACK: (u64, u64) = (BYTES as u64, 32 * 1024 * 1024);

/// A page of lines.
struct Page {
    items: VecDeque<OutputLine>,
    gap: Option<Gap>,
    /// Behind the last line that was read.
    cursor: Cursor,
    /// There is more behind it now.
    more: bool,
}

impl Runner {
    /// Returns a page: what is behind the cursor, or the newest lines.
    pub(crate) async fn history(&self, request: HistoryRequest) -> Result<HistoryAnswer, Refusal> {
        let (id, owner) = (&request.session_id, request.owner_id.as_deref());
        let source = self.source(id, owner)?;
        let limit = request.tail.or(request.limit).unwrap_or(LINES.0);
        if !(1..=LINES.1).contains(&limit) {
            return Err(Refusal::bad(format!("a page has 1 to {} lines", LINES.1)).about(id, 0));
        }
        let read = if request.tail.is_some() {
            self.newest(&source, limit as usize).await
        } else {
            let after = self.place(request.after.unwrap_or_else(|| source.at(0)), &source).await?;
            self.page(&source, after, limit as usize).await
        };
        let page = read.map_err(|error| Refusal::internal(format!("the output cannot be read: {error}")))?;
        Ok(HistoryAnswer {
            origin: self.origin(),
            session_id: id.clone(),
            generation: source.generation(),
            items: page.items.into(),
            gap: page.gap,
            cursor: page.cursor,
            next: page.more.then_some(page.cursor),
        })
    }

    /// Reads on from a cursor until a page is full. One that has begun ends before what is not kept any more.
    async fn page(&self, source: &Source, after: u64, limit: usize) -> io::Result<Page> {
        let mut page = Page::at(source.at(after));
        let (mut cutter, mut lost, mut bytes) = (Cutter::at(after), false, 0);
        loop {
            let lines = match self.piece(source, cutter.next(), CHUNK).await? {
                Piece::Bytes(read) => cutter.push(&read),
                Piece::Gap(_) if !page.items.is_empty() => {
                    page.more = true;
                    return Ok(page);
                }
                Piece::Gap(to) => {
                    lost = true;
                    cutter.skip(to);
                    continue;
                }
                Piece::Nothing => {
                    // What never ended is a line once nothing comes any more.
                    let last = if matches!(source, Source::Ended(..)) { cutter.last() } else { None };
                    last.into_iter().for_each(|line| page.more |= !page.add(&line, &mut bytes, limit));
                    return Ok(page);
                }
            };
            if let Some(to) = cutter.whole_from().filter(|_| std::mem::take(&mut lost)) {
                let gap = Gap { from: source.at(after), to: source.at(to) };
                (page.gap, page.cursor) = (Some(gap), gap.to);
            }
            if !lines.iter().all(|line| page.add(line, &mut bytes, limit)) {
                page.more = true;
                return Ok(page);
            }
        }
    }

    /// Reads the newest lines, farther and farther back until there is one.
    async fn newest(&self, source: &Source, limit: usize) -> io::Result<Page> {
        let mut back = BACK.0;
        loop {
            let (folder, _) = self.output_of(source);
            let head = files::aside(move || output::head(&folder)).await?.unwrap_or(0);
            let page = self.last_of(source, head.saturating_sub(back), limit).await?;
            if !page.items.is_empty() || back >= head || back >= BACK.1 {
                return Ok(page);
            }
            back *= 4;
        }
    }

    async fn last_of(&self, source: &Source, from: u64, limit: usize) -> io::Result<Page> {
        let mut page = Page::at(source.at(from));
        let (mut cutter, mut bytes) = (Cutter::at(from), 0);
        if from > 0 {
            cutter.skip(from);
        }
        loop {
            match self.piece(source, cutter.next(), CHUNK).await? {
                Piece::Bytes(read) => {
                    cutter.push(&read).iter().for_each(|line| page.push_newest(line, &mut bytes, limit));
                }
                Piece::Gap(to) => cutter.skip(to),
                Piece::Nothing => break,
            }
        }
        if matches!(source, Source::Ended(..)) {
            cutter.last().iter().for_each(|line| page.push_newest(line, &mut bytes, limit));
        }
        page.cursor = page.items.back().map_or(source.at(cutter.done()), |line| line.cursor);
        Ok(page)
    }
}

impl Page {
    /// Makes an empty one.
    fn at(cursor: Cursor) -> Self {
        Self { items: VecDeque::new(), gap: None, cursor, more: false }
    }

    /// Adds a line; false when it has no room.
    fn add(&mut self, line: &Line, bytes: &mut usize, limit: usize) -> bool {
        let (item, size) = shown(line, self.cursor);
        let fits = self.items.is_empty() || (self.items.len() < limit && *bytes + size <= BYTES);
        if fits {
            *bytes += size;
            self.cursor = item.cursor;
            self.items.push_back(item);
        }
        fits
    }

    /// Adds a line, and drops the oldest that have no room any more.
    fn push_newest(&mut self, line: &Line, bytes: &mut usize, limit: usize) {
        let (item, size) = shown(line, self.cursor);
        *bytes += size;
        self.items.push_back(item);
        while self.items.len() > limit || (*bytes > BYTES && self.items.len() > 1) {
            *bytes -= self.items.pop_front().map_or(0, |item| size_of(&item));
        }
    }
}

/// Returns a line of the output that `cursor` is in as a page tells it, and how much of the page it takes.
fn shown(line: &Line, cursor: Cursor) -> (OutputLine, usize) {
    let text = line.text.as_deref().filter(|text| text.len() <= BYTES / 2);
    let item = OutputLine::new(cursor.at(line.end), text);
    let size = size_of(&item);
    (item, size)
}

fn size_of(item: &OutputLine) -> usize {
    item.line.as_ref().or(item.hex.as_ref()).map_or(0, String::len)
}
