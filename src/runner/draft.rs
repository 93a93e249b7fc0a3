//! The text of a turn, put together out of what its lines add; pure, and of bounded size.

use std::collections::{HashMap, VecDeque};

use crate::runner::engines::Written;

/// How many bytes of it are told; the newest.
const MOST: usize = 256 * 1024;

/// A text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Its parts; of a long text the first are dropped.
    parts: VecDeque<String>,
    /// How many were dropped.
    dropped: usize,
    /// The parts that more may come of, by their names, counted from the first there ever was.
    open: HashMap<String, usize>,
    bytes: usize,
}

impl Draft {
    /// Takes in what one line adds.
    pub(crate) fn add(&mut self, written: Written) {
        match written {
            Written::Begins(name) => self.begin(name, String::new()),
            Written::More { part, text } => {
                let added = text.len();
                match self.open(&part) {
                    Some(open) => {
                        open.push_str(&text);
                        self.bytes += added;
                    }
                    None if part.is_empty() => self.begin(part, text),
                    None => {}
                }
            }
            Written::Whole { part, text } => self.replace(&part, text),
        }
        while self.parts.len() > 1 && self.bytes > 2 * MOST {
            self.bytes -= self.parts.pop_front().map_or(0, |part| part.len());
            self.dropped += 1;
        }
    }

    /// Returns the text so far, its parts on lines of their own.
    pub(crate) fn text(self) -> String {
        let parts: Vec<String> = self.parts.into_iter().filter(|text| !text.is_empty()).collect();
        let mut text = parts.join("\n");
        let cut = text.len().saturating_sub(MOST);
        let cut = (cut..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.drain(..cut);
        text
    }

    fn replace(&mut self, part: &str, text: String) {
        let added = text.len();
        match self.open(part) {
            Some(open) => {
                let before = std::mem::replace(open, text).len();
                self.bytes = self.bytes + added - before;
            }
            None if part.is_empty() => self.push(text),
            None => {}
        }
        if part.is_empty() {
            // The next part without a name is another one.
            self.open.remove(part);
        }
    }

    fn begin(&mut self, name: String, text: String) {
        self.open.insert(name, self.dropped + self.parts.len());
        self.push(text);
    }

    fn push(&mut self, text: String) {
        self.bytes += text.len();
        self.parts.push_back(text);
    }

    fn open(&mut self, name: &str) -> Option<&mut String> {
        let at = self.open.get(name)?.checked_sub(self.dropped)?;
        self.parts.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(part: &str, text: &str) -> Written {
        Written::More { part: part.to_owned(), text: text.to_owned() }
    }

    fn whole(part: &str, text: &str) -> Written {
        Written::Whole { part: part.to_owned(), text: text.to_owned() }
    }

    fn told(all: impl IntoIterator<Item = Written>) -> String {
        let mut draft = Draft::default();
        all.into_iter().for_each(|one| draft.add(one));
        draft.text()
    }

    #[test]
    fn pieces_grow_and_the_whole_takes_their_place() {
        assert_eq!(told([more("", "al"), more("", "pha")]), "alpha");
        assert_eq!(told([more("", "al"), whole("", "alpha"), more("", "be")]), "alpha\nbe");
        assert_eq!(told([whole("", "one"), whole("", "two")]), "one\ntwo");
        let named = [Written::Begins("a".into()), Written::Begins("b".into()), more("a", "1"), more("b", "2")];
        assert_eq!(told(named.into_iter().chain([whole("a", "11"), more("b", "3")])), "11\n23");
        assert_eq!(
            told([more("x", "no"), whole("y", "no"), more("", "yes")]),
            "yes",
            "what never began is not its own"
        );
    }

    #[test]
    fn a_long_text_keeps_its_newest_part_whole_characters_only() {
        let text = told(std::iter::repeat_with(|| whole("", &"é".repeat(1_000))).take(1_000));
        assert!(text.len() <= MOST && text.len() > MOST - 10 && text.ends_with('é'), "{}", text.len());
        let one = told(std::iter::repeat_with(|| more("", "aé")).take(200_000));
        assert!(one.len() <= MOST && one.len() > MOST - 10, "{}", one.len());
    }
}
