//! Ids of sessions as people write and read them: whole, or by a beginning that only one session has.
//!
//! No command takes a beginning for a session when another one, open or ended, begins alike. Only an id that Sexton made can
//! be meant by a beginning: all of those have one length, so that a whole one is never the beginning of another, not even
//! when its session is long gone. Ids that were imported are written whole. So are all that programs read and write.

use std::io::{IsTerminal, stdout};

use crate::cli::output::escape;
use crate::session::{Id, Session};
use crate::store::Neighbours;
use crate::tools::Tools;
use crate::verbs::VerbError;

/// The fewest characters that can stand for an id.
const LEAST: usize = 4;

/// The fewest characters that are shown of an id: the whole time of its making, where Sexton made it, so that a session
/// which is opened later hardly ever begins alike.
const SHOWN: usize = 12;

/// How many sessions are named when a beginning fits several.
const NAMED: usize = 5;

/// How long an id is that Sexton made.
const MADE: usize = 32;

/// Returns the whole id of the session that is meant: the one of exactly this id, else the only one whose id Sexton made
/// and which begins with it. What fits none is returned as it is, for the command to say that there is no such session.
///
/// # Errors
/// When it is the beginning of several ids, or too short to be taken for one; when the store fails.
pub(crate) async fn whole(tools: &Tools, wish: &Id) -> Result<Id, VerbError> {
    if !is_made_of_digits(wish) || wish.as_str().len() >= MADE || tools.store.find_session(wish).await?.is_some() {
        return Ok(wish.clone());
    }
    let limit = u32::try_from(NAMED + 1).unwrap_or(u32::MAX);
    let mut found = tools.store.list_sessions_beginning(wish, MADE, limit).await?;
    found.retain(|session| is_made(&session.id));
    if found.is_empty() {
        return Ok(wish.clone());
    }
    if wish.as_str().len() < LEAST {
        let why = format!("{wish} is too short for a session: write its id, or at least the first {LEAST} of it");
        return Err(VerbError::Invalid(why));
    }
    match (found.pop(), found.as_slice()) {
        (Some(only), []) => Ok(only.id),
        (last, others) => Err(VerbError::Invalid(several(wish, others.iter().chain(last.as_ref())))),
    }
}

/// Returns whether Sexton made it; another system may have made one that looks the same.
fn is_made(id: &Id) -> bool {
    id.as_str().len() == MADE && is_made_of_digits(id)
}

fn is_made_of_digits(id: &Id) -> bool {
    id.as_str().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn several<'a>(wish: &Id, found: impl Iterator<Item = &'a Session>) -> String {
    let found: Vec<&Session> = found.collect();
    let named = found.iter().take(NAMED);
    let named: Vec<_> =
        named.map(|session| format!("{} ({} in {})", session.id, session.status, escape(&session.repo))).collect();
    let more = if found.len() > NAMED { " and more" } else { "" };
    format!("{wish} is the beginning of several sessions, so write more of it: {}{more}", named.join(", "))
}

/// How much of each id a table shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Width(usize);

impl Width {
    /// Finds how much of these ids tells each of them from those of all other sessions. Where nobody looks at a terminal
    /// they are shown whole.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn of(tools: &Tools, ids: impl Iterator<Item = &Id>) -> Result<Self, VerbError> {
        if !stdout().is_terminal() {
            return Ok(Self(usize::MAX));
        }
        let ids: Vec<Id> = ids.cloned().collect();
        Ok(Self::among(&tools.store.find_neighbours(&ids).await?))
    }

    fn among(all: &[Neighbours]) -> Self {
        Self(all.iter().map(distinct).max().unwrap_or(SHOWN).max(SHOWN))
    }

    /// Returns what is shown of an id, which stands for its session: all of it, where no beginning does.
    pub(crate) fn show(self, id: &Id) -> &str {
        id.as_str().get(..self.0).filter(|_| is_made(id)).unwrap_or(id.as_str())
    }
}

/// Returns how many characters tell an id from its neighbours, and so from all others.
fn distinct(Neighbours { id, before, behind }: &Neighbours) -> usize {
    let common = |other: &String| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    [before, behind].into_iter().flatten().map(common).max().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours(id: &str, before: Option<&str>, behind: Option<&str>) -> Neighbours {
        Neighbours { id: id.to_owned(), before: before.map(str::to_owned), behind: behind.map(str::to_owned) }
    }

    #[test]
    fn as_much_is_shown_as_tells_an_id_from_all_others() {
        let shown = |all: &[Neighbours]| {
            let width = Width::among(all);
            all.iter().map(|one| width.show(&one.id.parse().unwrap()).to_owned()).collect::<Vec<_>>()
        };
        let (a, b) = ("01a22b0d6f4873a5b9a273e565646d2b", "01a22b0d6f4874410a6419ee70614634");
        assert_eq!(shown(&[neighbours(a, None, None)]), ["01a22b0d6f48"]);
        assert_eq!(shown(&[neighbours(a, None, Some("02"))]), ["01a22b0d6f48"]);
        assert_eq!(shown(&[neighbours(b, Some(a), None)]), ["01a22b0d6f4874"], "both were made in one millisecond");
        assert_eq!(shown(&[neighbours("fresh", None, Some("fresher"))]), ["fresh"], "whole, which is exact");
        assert_eq!(
            shown(&[neighbours("build-of-friday", None, None)]),
            ["build-of-friday"],
            "no beginning stands for it"
        );
        assert_eq!(shown(&[]), [""; 0]);
    }
}
