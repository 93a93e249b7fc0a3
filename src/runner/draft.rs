//! The text of a turn, put together out of what its lines add; pure, and of bounded size.

use std::collections::VecDeque;

use crate::runner::engines::Written;

/// How many bytes of it are told; the newest.
const MOST: usize = 256 * 1024;

/// A text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    parts: VecDeque<Part>,
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    name: String,
    text: String,
    /// More of it may come.
    open: bool,
}

impl Draft {
    /// Takes in what one line adds.
    pub(crate) fn add(&mut self, written: Written) {
        match written {
            Written::Begins(name) => self.push(name, String::new(), true),
            Written::More { part, text } => match self.open(&part) {
                Some(open) => {
                    open.text.push_str(&text);
                    self.bytes += text.len();
                }
                None if part.is_empty() => self.push(part, text, true),
                None => {}
            },
            Written::Whole { part, text } => self.replace(part, text),
        }
        while self.parts.len() > 1 && self.bytes > 2 * MOST {
            self.bytes -= self.parts.pop_front().map_or(0, |part| part.text.len());
        }
    }

    /// Returns the text so far, its parts on lines of their own.
    pub(crate) fn text(self) -> String {
        let parts: Vec<String> = self.parts.into_iter().map(|part| part.text).filter(|text| !text.is_empty()).collect();
        let mut text = parts.join("\n");
        let cut = text.len().saturating_sub(MOST);
        let cut = (cut..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.drain(..cut);
        text
    }

    fn replace(&mut self, part: String, text: String) {
        let (added, unnamed) = (text.len(), part.is_empty());
        match self.open(&part) {
            Some(open) => {
                let before = std::mem::replace(&mut open.text, text).len();
                // The next part without a name is another one.
                open.open = !unnamed;
                self.bytes = self.bytes + added - before;
            }
            None if unnamed => self.push(part, text, false),
            None => {}
        }
    }

    fn push(&mut self, name: String, text: String, open: bool) {
        self.bytes += text.len();
        self.parts.push_back(Part { name, text, open });
    }

    fn open(&mut self, name: &str) -> Option<&mut Part> {
        self.parts.iter_mut().rev().find(|part| part.open && part.name == name)
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
