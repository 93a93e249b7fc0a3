//! API tokens: how one is made, hashed and compared, and what its scopes allow. Where they are kept is the store's
//! business.
//!
//! A token is 256 random bits, so a plain SHA-256 of it is as hard to turn back as the token is to guess. Only the hash is
//! kept; the token itself is shown once, when it is made.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::session::{Id, Session};
use crate::store::Token;
use crate::time::UtcMs;
use crate::words::words;

/// What every token begins with, so that people and secret scanners know one when they see it.
const PREFIX: &str = "sxt_";

/// The longest name of an owner.
const LONGEST_OWNER: usize = 128;

words! {
    /// What a token allows.
    Scope {
        /// Look at sessions, runners, passes and metrics.
        Read = "read",
        /// Keep sessions; of `use` too. Alone it is that of an engine's own token.
        Keep = "keep",
        /// Use sessions: start, write, keep, drive, end.
        Use = "use",
        /// Ask for passes.
        Reap = "reap",
        /// Everything.
        Admin = "admin",
    }
}

/// The scopes of one token; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// Returns whether they allow what `scope` stands for.
    #[must_use]
    pub fn allow(&self, scope: Scope) -> bool {
        let has = |scope| self.0.contains(&scope);
        has(scope) || has(Scope::Admin) || (scope == Scope::Keep && has(Scope::Use))
    }
}

impl FromStr for Scopes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let scopes = words.map(str::parse).collect::<Result<BTreeSet<Scope>, String>>()?;
        if scopes.is_empty() {
            return Err("a token needs a scope: read, use, reap or admin, several joined by commas".to_owned());
        }
        Ok(Self(scopes))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|scope| scope.as_str()).collect();
        f.write_str(&words.join(","))
    }
}

/// A token as its holder shows it. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the token, for the one person who is to have it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Makes a token for `owner`, and the row of it that is to be inserted.
///
/// # Errors
/// One sentence, when the owner's name is none, the scopes are an engine's, or the machine has no randomness to give.
pub fn create(owner: &str, scopes: &Scopes, now: UtcMs) -> Result<(Token, Secret), String> {
    if owner.trim().is_empty() || owner.len() > LONGEST_OWNER || owner.chars().any(char::is_control) {
        return Err(format!("{owner:?} is no owner: a name of 1 to {LONGEST_OWNER} bytes without control characters"));
    }
    if scopes.0.contains(&Scope::Keep) {
        return Err("the scope keep is that of the tokens that engines get; `use` allows the same".to_owned());
    }
    make(owner, scopes, None, now)
}

/// Makes the token of a session's engine, which can keep that session and nothing else, and its row.
///
/// # Errors
/// One sentence, when the machine has no randomness to give.
pub fn create_lease(session: &Session, now: UtcMs) -> Result<(Token, Secret), String> {
    let owner = session.owner_id.as_deref().unwrap_or_default();
    let lease = Some((session.id.clone(), session.generation));
    make(owner, &Scopes(BTreeSet::from([Scope::Keep])), lease, now)
}

fn make(owner: &str, scopes: &Scopes, lease: Option<(Id, i64)>, now: UtcMs) -> Result<(Token, Secret), String> {
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits).map_err(|error| format!("the system gives no random bits: {error}"))?;
    let secret = Secret(format!("{PREFIX}{}", hex(&bits)));
    let row = Token {
        id: Id::new(),
        hash: hash(secret.expose()),
        owner_id: owner.to_owned(),
        scope: scopes.to_string(),
        created_at: now,
        revoked_at: None,
        lease,
    };
    Ok((row, secret))
}

/// Returns the hash under which a token is kept.
#[must_use]
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Returns whether two hashes are the same, in a time that does not tell how far they agree.
#[must_use]
pub fn same_hash(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(owner: &str) -> Result<(Token, Secret), String> {
        create(owner, &"read,use".parse().unwrap(), UtcMs(0))
    }

    #[test]
    fn a_token_is_256_bits_and_only_its_hash_is_kept() {
        let (row, secret) = make("ada").unwrap();
        let (_, other) = make("ada").unwrap();
        assert_eq!(secret.expose().len(), PREFIX.len() + 64);
        assert_ne!(secret, other);
        assert!(same_hash(&row.hash, &hash(secret.expose())));
        assert!(!same_hash(&row.hash, &hash(other.expose())) && !same_hash(&row.hash, &row.hash[1..]));
        let shown = format!("{row:?} {secret:?} {}", serde_json::to_string(&row).unwrap());
        assert!(!shown.contains(&secret.expose()[PREFIX.len()..]), "{shown}");
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn scopes_read_and_write_themselves_back_and_admin_allows_all() {
        let scopes: Scopes = " use, read".parse().unwrap();
        assert_eq!(scopes.to_string(), "read,use");
        assert!(scopes.allow(Scope::Read) && !scopes.allow(Scope::Reap) && !scopes.allow(Scope::Admin));
        let admin: Scopes = "admin".parse().unwrap();
        assert!(Scope::ALL.iter().all(|scope| admin.allow(*scope)));
        for bad in ["", ",", "read,root"] {
            assert!(bad.parse::<Scopes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn keeping_is_part_of_using_and_of_nothing_else() {
        let allows = |scopes: &str| scopes.parse::<Scopes>().unwrap().allow(Scope::Keep);
        assert!(allows("use") && allows("keep") && allows("admin"));
        assert!(!allows("read,reap"));
        let keep: Scopes = "keep".parse().unwrap();
        assert!(Scope::ALL.iter().all(|scope| keep.allow(*scope) == (*scope == Scope::Keep)));
    }

    #[test]
    fn a_token_has_an_owner_and_only_engines_have_the_scope_keep() {
        for bad in ["", "  ", "a\nb", &"x".repeat(129)] {
            assert!(make(bad).unwrap_err().contains("is no owner"), "{bad:?}");
        }
        assert!(create("ada", &"keep".parse().unwrap(), UtcMs(0)).unwrap_err().contains("`use` allows the same"));
    }
}
