//! Every reply in `fixtures/tracked/` reads as its name says, for the reason that the snapshot shows.

use std::fs;
use std::path::{Path, PathBuf};

use sexton::protocol::tracked::{Answer, Expected, Reading, TrackedSet, read_tracked};

/// What a reply's `.head` file changes; see `fixtures/tracked/README.md`.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) age: Option<String>,
    pub(crate) expected: Expected,
}

impl Head {
    pub(crate) fn of(body: &Path) -> Self {
        let expected = Expected {
            ask: "r4nd0m".to_owned(),
            runner_id: Some("mac-mini".to_owned()),
            state_id: None,
            epoch: Some(7),
            speaks_protocol: false,
        };
        let content_type = Some("application/json".to_owned());
        let mut head = Self { status: 200, content_type, content_encoding: None, age: None, expected };
        for line in fs::read_to_string(body.with_extension("head")).unwrap_or_default().lines() {
            let (name, value) = line.split_once(':').unwrap();
            head.set(name, value.trim());
        }
        head
    }

    fn set(&mut self, name: &str, value: &str) {
        match (name, value) {
            ("status", _) => self.status = value.parse().unwrap(),
            ("content-type", "none") => self.content_type = None,
            ("content-type", _) => self.content_type = Some(value.to_owned()),
            ("content-encoding", _) => self.content_encoding = Some(value.to_owned()),
            ("age", _) => self.age = Some(value.to_owned()),
            ("expected-runner", "none") => self.expected.runner_id = None,
            ("expected-state", _) => self.expected.state_id = Some(value.to_owned()),
            ("speaks-protocol", "true") => self.expected.speaks_protocol = true,
            _ => panic!("fixtures/tracked/README.md knows no {name}: {value}"),
        }
    }

    fn read(&self, body: &[u8]) -> Reading {
        let answer = Answer {
            status: self.status,
            content_type: self.content_type.as_deref(),
            content_encoding: self.content_encoding.as_deref(),
            age: self.age.as_deref(),
            body,
        };
        read_tracked(&answer, &self.expected)
    }
}

pub(crate) fn replies() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tracked");
    let mut replies: Vec<(String, PathBuf)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    replies.sort();
    replies
}

fn outcome(reading: &Reading) -> (&'static str, String) {
    match reading {
        Reading::Tracked(set) => ("tracked", summary(set)),
        Reading::Unknown(why) => ("unknown", why.clone()),
        Reading::Unrecognised(why) => ("unrecognised", why.clone()),
    }
}

fn summary(set: &TrackedSet) -> String {
    let tracked: Vec<String> = set
        .tracked
        .iter()
        .map(|one| format!("{}@{}", one.session_id, one.generation.map_or("?".to_owned(), |g| g.to_string())))
        .collect();
    let ended: Vec<String> =
        set.ended.iter().map(|one| format!("{}@{} {}", one.session_id, one.generation, one.reason)).collect();
    let TrackedSet { protocol, runner_id, epoch, stamp, .. } = set;
    let state = set.state_id.as_ref().map_or(String::new(), |state_id| format!(" state {state_id}"));
    format!("{tracked:?} ended {ended:?} of {runner_id:?} protocol {protocol:?} epoch {epoch:?} stamp {stamp:?}{state}")
}

/// The named bad replies conclude nothing, the good ones are served, and each says why in a sentence for a person.
#[test]
fn every_reply_reads_as_its_name_says() {
    let mut lines = Vec::new();
    let (mut good, mut bad) = (0, 0);
    for (name, path) in replies() {
        let (word, text) = outcome(&Head::of(&path).read(&fs::read(&path).unwrap()));
        assert_eq!(name.split('-').next(), Some(word), "{name}: {text}");
        *(if word == "tracked" { &mut good } else { &mut bad }) += 1;
        lines.push(format!("{name}: {text}"));
    }
    assert!(bad >= 60 && good >= 15, "{bad} bad and {good} good replies");
    insta::assert_snapshot!(lines.join("\n"));
}

/// A reply that is cut off anywhere is no reply: there is no prefix of a good one that reads as a shorter set.
#[test]
fn no_prefix_of_a_good_reply_reads_as_a_set() {
    for (name, path) in replies().into_iter().filter(|(name, _)| name.starts_with("tracked-")) {
        let body = fs::read(&path).unwrap();
        let whole = body.trim_ascii_end().len();
        for length in 0..whole {
            let reading = Head::of(&path).read(&body[..length]);
            assert!(matches!(reading, Reading::Unrecognised(_)), "{name} cut to {length}: {reading:?}");
        }
    }
}

/// What the engines do survives the reading; what is odd about it is unknown, never silence.
#[test]
fn the_state_of_the_engines_is_read() {
    let read = |name: &str| {
        let (_, path) = replies().into_iter().find(|(known, _)| known == name).unwrap();
        let reading = Head::of(&path).read(&fs::read(&path).unwrap());
        let Reading::Tracked(set) = reading else { panic!("{reading:?}") };
        set
    };
    insta::assert_debug_snapshot!(read("tracked-protocol-full"));
    insta::assert_debug_snapshot!(read("tracked-odd-state-is-unknown").tracked[0].state);
    insta::assert_debug_snapshot!(read("tracked-odd-figures-are-dropped").tracked);
}
