//! Giving back memory that is not needed any more: the pages of the program and its libraries that were read.
//!
//! Most of what a process holds that does little are pages that its start needed. The kernel reads one that is needed
//! again from where it came from. Never touches a page that this process has written to, and knows nothing of the heap.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

use rustix::mm::Advice;

/// Where Linux shows the mappings of this process, and what is in memory of each.
const MAPPINGS: &str = "/proc/self/smaps";
/// How much of it is read at once; the list itself should cost next to nothing.
const READ: usize = 1024;

/// Gives back every page that is not this process's own. What cannot be given back stays.
///
/// What must be true: no other thread of this process maps a file or changes such a mapping meanwhile.
pub(crate) fn give_back() {
    let Ok(file) = File::open(MAPPINGS) else { return };
    for range in of_files(BufReader::with_capacity(READ, file)) {
        drop_pages(&range);
    }
}

/// Has the kernel forget the pages of one mapping that [`of_files`] returned just now.
#[expect(unsafe_code, reason = "no safe call tells the kernel that pages are not needed")]
fn drop_pages(range: &Range<usize>) {
    let start = std::ptr::without_provenance_mut(range.start);
    // SAFETY: the range is a whole mapping of a file into which nothing can be written through it and in which no page is
    // this process's own, so that each page comes back from the file, with the same bytes, when it is next used: as if
    // the kernel had taken it under memory pressure, which it may at any time. Nothing was mapped there in between, as
    // `give_back` demands. A refusal changes nothing.
    let _ = unsafe { rustix::mm::madvise(start, range.len(), Advice::LinuxDontNeed) };
}

/// Returns the mappings of files that hold nothing but what the files hold.
///
/// What must be true of each: it is private, cannot be written to, and the kernel counts no page in it, in memory or
/// swapped out, that differs from the file's own (`Anonymous`, `Swap`). What is not understood is left out. Whether the
/// file's page has come to the disk yet (`Private_Dirty`) says nothing about the mapping.
fn of_files(smaps: impl BufRead) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut range, mut anonymous) = (None, None);
    for line in smaps.lines().map_while(Result::ok) {
        let (name, rest) = line.split_once(' ').unwrap_or_default();
        match name {
            "Anonymous:" => anonymous = Some(is_zero(rest)),
            // It stands behind `Anonymous`; where it does not, nothing is given back.
            "Swap:" if anonymous == Some(true) && is_zero(rest) => found.extend(range.take()),
            other if other.ends_with(':') => {}
            span => (range, anonymous) = (of_file(span, rest), None),
        }
    }
    found
}

/// Returns the range of a mapping, if it is a private one of a file and cannot be written to.
fn of_file(span: &str, rest: &str) -> Option<Range<usize>> {
    let mut fields = rest.split_ascii_whitespace();
    let mode = fields.next()?;
    let (_offset, _device, inode, path) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    if !matches!(mode, "r--p" | "r-xp") || inode == "0" || !path.starts_with('/') {
        return None;
    }
    let (start, end) = span.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

fn is_zero(amount: &str) -> bool {
    amount.split_ascii_whitespace().eq(["0", "kB"])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// One mapping as the kernel shows it.
    fn mapping(head: &str, anonymous: &str, swap: &str) -> String {
        format!(
            "{head}\nSize:                 16 kB\nRss:                  16 kB\nPrivate_Clean:         0 kB\n\
             Private_Dirty:        16 kB\nAnonymous:      {anonymous} kB\nAnonHugePages:         0 kB\n\
             Swap:           {swap} kB\nSwapPss:               0 kB\nVmFlags: rd mr mw me sd \n"
        )
    }

    fn chosen(smaps: &str) -> Vec<Range<usize>> {
        of_files(smaps.as_bytes())
    }

    const TEXT: &str = "1000-5000 r-xp 00002000 fe:00 42                         /usr/bin/it";

    #[test]
    fn text_and_constants_of_files_are_given_back() {
        let constants = "7f00-8f00 r--p 00000000 fe:00 43    /usr/lib/a name with spaces.so (deleted)";
        let all = [mapping(TEXT, "0", "0"), mapping(constants, "0", "0")].concat();
        assert_eq!(chosen(&all), [0x1000..0x5000, 0x7f00..0x8f00]);
    }

    #[test]
    fn a_mapping_with_a_page_of_its_own_is_never_touched() {
        for (anonymous, swap) in [("4", "0"), ("0", "4"), ("16", "16"), ("", "0"), ("0", ""), ("x", "0")] {
            assert!(chosen(&mapping(TEXT, anonymous, swap)).is_empty(), "{anonymous:?} {swap:?}");
        }
    }

    #[test]
    fn what_is_no_unwritable_private_file_is_never_touched() {
        for head in [
            "1000-5000 rw-p 00002000 fe:00 42  /usr/bin/it",
            "1000-5000 rwxp 00002000 fe:00 42  /usr/bin/it",
            "1000-5000 -w-p 00002000 fe:00 42  /usr/bin/it",
            "1000-5000 ---p 00002000 fe:00 42  /usr/bin/it",
            "1000-5000 r--s 00002000 fe:00 42  /usr/bin/it",
            "1000-5000 r-xp 00000000 00:00 0   [vdso]",
            "1000-5000 r--p 00000000 00:00 0   [vvar]",
            "1000-5000 r--p 00000000 00:00 0   /anything",
            "1000-5000 r--p 00000000 00:00 0 ",
            "1000-5000 rw-p 00000000 00:00 0   [heap]",
            "1000-5000 r-xp 00002000 fe:00",
            "10x0-5000 r-xp 00002000 fe:00 42  /usr/bin/it",
            "1000 r-xp 00002000 fe:00 42  /usr/bin/it",
        ] {
            assert!(chosen(&mapping(head, "0", "0")).is_empty(), "{head}");
        }
    }

    #[test]
    fn without_both_counts_nothing_is_known_of_a_mapping() {
        let whole = mapping(TEXT, "0", "0");
        for missing in ["Anonymous:", "Swap:"] {
            let lines = whole.lines().filter(|line| !line.starts_with(missing));
            let cut: String = lines.map(|line| format!("{line}\n")).collect();
            assert!(chosen(&cut).is_empty(), "{missing}");
            assert_eq!(chosen(&(cut + &whole)).len(), 1, "and the next one is not mistaken for it");
        }
        assert!(chosen("").is_empty());
    }

    #[test]
    fn of_this_process_the_text_is_chosen_and_nothing_that_it_writes_to() {
        static WRITTEN: AtomicUsize = AtomicUsize::new(0);
        let ranges = of_files(BufReader::new(File::open(MAPPINGS).unwrap()));
        let has = |address: usize| ranges.iter().any(|range| range.contains(&address));
        assert!(has(give_back as fn() as usize), "{ranges:x?}");
        let (stack, heap) = (0_u8, Box::new(0_u8));
        for own in [(&raw const WRITTEN).addr(), (&raw const stack).addr(), (&raw const *heap).addr()] {
            assert!(!has(own), "{own:x} {ranges:x?}");
        }
    }
}
