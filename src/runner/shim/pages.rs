//! When an idle shim gives back the memory that it does not need: once things have gone quiet.

use crate::memory;

/// Whether there is something to give back.
///
/// Asked at each look of the loop, which there is anyway: no shim is ever woken for this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Something was done since the last look.
    Used,
    /// Nothing was.
    Quiet,
    /// Nothing was since they were given back; what the looks themselves need stays.
    Given,
}

impl Pages {
    /// Takes note that something is done.
    pub(crate) fn used(&mut self) {
        *self = Self::Used;
    }

    /// Gives them back if nothing was done since the look before this one: once after each time that something was.
    pub(crate) fn look(&mut self) {
        if *self == Self::Quiet {
            memory::give_back();
        }
        *self = if *self == Self::Used { Self::Quiet } else { Self::Given };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_given_back_once_and_only_after_a_quiet_stretch() {
        let mut pages = Pages::Used;
        let mut after = || {
            pages.look();
            pages
        };
        assert_eq!([after(), after(), after()], [Pages::Quiet, Pages::Given, Pages::Given]);
        pages.used();
        assert_eq!(pages, Pages::Used);
    }
}
