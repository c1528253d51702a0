//! The kept sessions that are explored. The figures beside the name are the pinned numbers of states and steps, and the
//! depth.

use crate::checking::system::{self, Named};
use crate::kept::machine::{Config, May::*};
use crate::kept::rules::Rules;

macro_rules! configurations {
    ($($name:literal [$states:literal, $steps:literal, $depth:literal] $about:literal $requests:literal, [$($may:ident)*];)*) => {
        /// Returns all sessions.
        pub fn all() -> Vec<Named<Config>> {
            vec![$(Named {
                name: $name,
                about: $about.into(),
                machine: Config {
                    about: $about,
                    requests: $requests,
                    may: &[$($may),*],
                    rules: Rules::AS_MENDED,
                },
                pinned: ($states, $steps, $depth),
                ends: &[],
            }),*]
        }
    };
}

configurations! {
    "ks-plain" [5084, 15_786, 23] "clients that leave, applications that fail, and a process that dies"
        2, [Abandon Abort Crash];
    "ks-reader" [5627, 20_928, 22] "a thread goes on reading, by single steps"
        2, [Read Abandon Abort];
    "ks-reader-within" [10_687, 41_750, 26] "a thread goes on reading, and may be within a read at the end"
        2, [ReadWithin Abandon Abort];
    "ks-writer" [7147, 28_144, 24] "a thread goes on writing"
        2, [Write Abandon Abort];
    "ks-child" [6107, 23_672, 23] "a forked child"
        2, [Fork Abandon Abort];
    "ks-all" [171_644, 730_887, 34] "all of them at once"
        2, [ReadWithin Write Fork];
    "ks-three" [20_224, 61_580, 39] "three requests, one after the other"
        3, [ReadWithin];
}

/// Returns the session of this name.
pub fn named(name: &str) -> Option<Config> {
    system::named(all(), name).map(|named| named.machine)
}
