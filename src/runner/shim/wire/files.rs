//! The files in a session's folder that runner and shim both know.

/// The socket on which the shim listens, within the session's folder.
pub(crate) const SOCKET: &str = "s";
/// The file on which the shim holds a lock for as long as it lives.
pub(crate) const LOCK: &str = "lock";
/// What the shim leaves behind when nothing of the engine is left: a [`Gone`](crate::runner::shim::wire::Gone).
pub(crate) const EXIT: &str = "exit.json";
/// What the shim writes once its engine runs: a [`Held`](crate::runner::shim::wire::Held).
pub(crate) const HELD: &str = "shim.json";
/// The folder of the engine's output, in segments that are named by the offset of their first byte.
pub(crate) const OUT: &str = "out";
/// The engine's newest standard error, at most [`ERRORS_MOST`] bytes: from the last multiple of that on.
pub(crate) const ERRORS: &str = "err.log";
/// The [`ERRORS_MOST`] bytes of standard error before those.
pub(crate) const ERRORS_OLD: &str = "err.old";
/// How large a segment of output becomes, unless the spec says otherwise; no setting.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// How large each of the two files of standard error becomes.
pub(crate) const ERRORS_MOST: u64 = 1024 * 1024;

/// Returns the name of the segment whose first byte lies at `base`.
#[must_use]
pub(crate) fn segment_name(base: u64) -> String {
    format!("{base:020}.log")
}

/// Returns the name of the file that says when that segment's bytes came: [`TIME_BYTES`] long records, each an end
/// offset (u64) and a reading of the awake clock (i64), little endian: all bytes before the offset came not later.
#[must_use]
pub(crate) fn times_name(base: u64) -> String {
    format!("{base:020}.times")
}

/// How long one record of a `.times` file is; a shorter rest is one that is still being written.
pub(crate) const TIME_BYTES: usize = 16;

/// Returns the offset that a segment's name says; none when it is no segment's name.
#[must_use]
pub(crate) fn parse_segment(name: &str) -> Option<u64> {
    name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segments_name_says_its_offset_and_sorts_by_it() {
        assert_eq!(parse_segment(&segment_name(16_777_216)), Some(16_777_216));
        assert!(segment_name(9) < segment_name(10));
        for other in ["17.log", "00000000000000000017.times", "0000000000000000001x.log"] {
            assert_eq!(parse_segment(other), None, "{other}");
        }
    }
}
