//! Mutated replies: no panic, and what reads as a set is one by a second, independent check.
//!
//! Deterministic. `SEXTON_FUZZ_CASES=10000000 cargo test --release --test it tracked_fuzz` runs ten million cases.

use std::fs;
use std::path::Path;

use sexton::protocol::tracked::{Answer, Expected, Reading, TrackedSet, read_tracked};

/// Cases of a plain `cargo test`: a few seconds without optimisation.
const CASES: u64 = 200_000;

/// A small generator (`SplitMix64`), the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Pieces that matter to the reading, to be put in anywhere.
const PIECES: &[&str] = &[
    "\"tracked\":[]",
    "\"tracked\":null",
    "\"tracked\":[],",
    ",\"tracked\":[]",
    ",\"tracked\":[\"id-9\"]",
    "\"\\u0074racked\":[],",
    "\"complete\":false,",
    "\"complete\":true,",
    "\"ready\":false,",
    "\"error\":\"x\",",
    "\"next_page\":\"x\",",
    "\"ask\":\"x\",",
    "\"ask\":\"r4nd0m\",",
    "\"runner_id\":\"x\",",
    "\"epoch\":6,",
    "\"protocol\":1,",
    "\"session_id\":\"id-9\",",
    "\"generation\":0,",
    "\"ended\":[],",
    "\"ended\":[{}],",
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "0",
    "-1",
    "1e9",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    " ",
    "\n",
    "\u{feff}",
    "\u{1F480}",
];

fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut body = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(body.len() + 1);
        let end = (at + random.below(24)).min(body.len());
        match random.below(8) {
            0 => body.truncate(at),
            1 => drop(body.drain(at..end)),
            2 => insert(&mut body, at, random.pick(PIECES).as_bytes()),
            3 => drop(body.splice(at..end, random.pick(PIECES).bytes())),
            4 => body.extend_from_within(at..end),
            5 if at < body.len() => body[at] ^= 1 << random.below(8),
            6 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                body.splice(at..end, other[from..].iter().take(64).copied());
            }
            _ => put_at_a_seam(random, &mut body),
        }
    }
    body
}

fn insert(body: &mut Vec<u8>, at: usize, piece: &[u8]) {
    body.splice(at..at, piece.iter().copied());
}

/// Puts a piece right behind a `{`, `[` or `,`, where it has the best chance to leave valid JSON.
fn put_at_a_seam(random: &mut Random, body: &mut Vec<u8>) {
    let seams: Vec<usize> = (0..body.len()).filter(|at| matches!(body[*at], b'{' | b'[' | b',')).collect();
    if !seams.is_empty() {
        let at = seams[random.below(seams.len())] + 1;
        insert(body, at, random.pick(PIECES).as_bytes());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tracked");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| fs::read(path).unwrap())
        .filter(|body| !body.is_empty())
        .collect()
}

fn expected() -> Expected {
    Expected {
        ask: "r4nd0m".to_owned(),
        runner_id: Some("mac-mini".to_owned()),
        state_id: None,
        epoch: Some(7),
        speaks_protocol: false,
    }
}

fn read(body: &[u8]) -> Reading {
    read_tracked(&Answer { status: 200, body, ..Answer::default() }, &expected())
}

/// The second opinion: `serde_json`'s own tree, and a count of the top-level keys by hand.
fn check(body: &[u8], set: &TrackedSet) -> Result<(), String> {
    let tree: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let object = tree.as_object().ok_or("no object")?;
    let listed = object.get("tracked").and_then(|tracked| tracked.as_array()).ok_or("no list")?;
    let keys = top_level_keys(std::str::from_utf8(body).map_err(|error| error.to_string())?);
    for key in
        ["tracked", "complete", "ready", "ask", "runner_id", "state_id", "epoch", "protocol", "error", "next_page"]
    {
        let times = keys.iter().filter(|seen| *seen == key).count();
        if times != usize::from(object.contains_key(key)) {
            return Err(format!("{key} is there {times} times"));
        }
    }
    let ids: Vec<&str> = listed.iter().filter_map(|one| one.get("session_id").unwrap_or(one).as_str()).collect();
    let read: Vec<&str> = set.tracked.iter().map(|one| one.session_id.as_str()).collect();
    if ids != read || ids.len() != listed.len() {
        return Err(format!("{read:?} was read, {ids:?} was sent"));
    }
    let is = |key: &str, value: serde_json::Value| object.get(key).is_none_or(|sent| *sent == value);
    let claims = is("complete", true.into())
        && is("ready", true.into())
        && is("error", serde_json::Value::Null)
        && is("next_page", serde_json::Value::Null)
        && is("ask", "r4nd0m".into())
        && is("runner_id", "mac-mini".into())
        && object.get("epoch").is_none_or(|epoch| epoch.as_i64() >= Some(7));
    let must = ["runner_id", "epoch", "stamp", "ask", "ready", "complete"];
    let whole = !object.contains_key("protocol") || must.iter().all(|key| object.contains_key(*key));
    if claims && whole { Ok(()) } else { Err("a claim does not hold".to_owned()) }
}

/// Lists the keys of the outermost object of valid JSON, in the order sent, repeated ones included.
fn top_level_keys(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut keys, mut depth, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let start = at;
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let is_key = depth == 1 && text[at + 1..].trim_start().starts_with(':');
                if is_key {
                    keys.push(serde_json::from_str(&text[start..=at]).unwrap());
                }
            }
            _ => {}
        }
        at += 1;
    }
    keys
}

fn cases() -> u64 {
    std::env::var("SEXTON_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Ten million of these close nothing that a second reading of the same bytes would not close.
#[test]
fn no_mutated_reply_reads_as_a_set_that_it_is_not() {
    let seeds = seeds();
    let threads = 4;
    let believed: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let seeds = &seeds;
                scope.spawn(move || (0..cases() / threads).filter(|case| believes(seeds, thread << 48 | *case)).count())
            })
            .collect();
        workers.into_iter().map(|worker| u64::try_from(worker.join().unwrap()).unwrap()).sum()
    });
    assert!(believed > cases() / 100, "only {believed} of {} still read as a set: the mutations are too wild", cases());
}

fn believes(seeds: &[Vec<u8>], case: u64) -> bool {
    let body = mutate(&mut Random(case), seeds);
    let Reading::Tracked(set) = read(&body) else { return false };
    if let Err(why) = check(&body, &set) {
        panic!("case {case} reads as a set, but {why}:\n{}", String::from_utf8_lossy(&body));
    }
    true
}

/// However a sound answer that lists nothing is written, it still says: "I hold nothing".
#[test]
fn every_valid_empty_list_reads_as_an_empty_set() {
    for case in 0..cases() / 10 {
        let body = empty(&mut Random(case));
        let reading = read(body.as_bytes());
        let is_empty = matches!(&reading, Reading::Tracked(set) if set.tracked.is_empty());
        assert!(is_empty, "case {case}: {reading:?}\n{body}");
    }
}

/// Writes an answer that lists nothing: bare or by the protocol, keys in any order, spaces and foreign keys anywhere.
fn empty(random: &mut Random) -> String {
    let gap = |random: &mut Random| random.pick(&["", "", " ", "\n", "\t\r\n "]);
    let mut parts = vec![format!("\"tracked\":{}[{}]", gap(random), gap(random))];
    let claims =
        ["\"complete\":true", "\"ready\":true", "\"ask\":\"r4nd0m\"", "\"runner_id\":\"mac-mini\"", "\"epoch\":8"];
    let speaks = random.chance(2);
    parts.extend(claims.iter().filter(|_| speaks || random.chance(3)).map(|claim| (*claim).to_owned()));
    if speaks {
        parts.extend(["\"protocol\":1".to_owned(), "\"stamp\":\"8:5\"".to_owned()]);
    }
    let foreign = ["\"x\":null", "\"y\":{\"tracked\":null}", "\"z\":[[[]]]", "\"error\":null", "\"next_page\":null"];
    parts.extend(foreign.iter().filter(|_| random.chance(3)).map(|part| (*part).to_owned()));
    for at in (1..parts.len()).rev() {
        parts.swap(at, random.below(at + 1));
    }
    let mut body = format!("{}{{", gap(random));
    for (at, part) in parts.iter().enumerate() {
        body.push_str(if at == 0 { "" } else { "," });
        body.push_str(&format!("{}{part}{}", gap(random), gap(random)));
    }
    body + "}" + gap(random)
}
