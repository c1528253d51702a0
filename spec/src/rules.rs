//! The errata of the text, and which of them a machine carries out as written.
//!
//! The text is the specification, and it contains errors. Each has a number. A machine made with
//! [`Rules::AS_RULED`] follows the ruling of every one; [`Rules::AS_WRITTEN`] follows the text; and
//! `Rules::AS_RULED.but(&[E12])` follows the rulings but for one, which isolates what that one is
//! good for. In the machine's source each rule is a visible switch: `if self.written(E12)`.

use Erratum::*;

macro_rules! errata {
    ($($name:ident $number:literal $written:literal $ruled:literal;)*) => {
        /// An erratum of the text, by its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Erratum {
            $(#[doc = concat!("As written: ", $written, ". As ruled: ", $ruled, ".")] $name = $number,)*
        }

        impl Erratum {
            /// All of them, in order.
            pub const ALL: &[Erratum] = &[$($name),*];

            /// What the text says, or fails to say.
            pub fn as_written(self) -> &'static str {
                match self { $($name => $written),* }
            }
            /// What holds instead.
            pub fn as_ruled(self) -> &'static str {
                match self { $($name => $ruled),* }
            }
            /// `E12` and the like.
            pub fn name(self) -> &'static str {
                match self { $($name => stringify!($name)),* }
            }
        }
    };
}

errata! {
    E1 1 "taking an idle process sets max to active + 1" "active is what changes";
    E2 2 "detaching a group joins its spawner thread while holding the lock that the thread needs" "the spawn is told to give up, and nothing is joined under the lock";
    E3 3 "a spawn in the background reserves nothing" "capacity is reserved before a spawn begins, and looked at again when it ends";
    E4 4 "a group's first process is spawned under the lock, and a group exists only while it has processes" "every spawn runs without the lock; gets wait for its outcome in a record that outlives the processes";
    E5 5 "last_used is never set for a process spawned in the background" "set when it is attached";
    E6 6 "detach_group removes the group under the requester's name" "under its own name";
    E7 7 "three names are undefined" "detach_group; carried with the request; processed";
    E8 8 "both invariants of detached are inverted" "stated right";
    E9 9 "size is not kept when a group is detached" "size is the number of processes, always";
    E10 10 "lists are modified while they are iterated" "drained from the front, or walked with a cursor";
    E11 11 "the flag spawning is set before the thread is created, and stays if that fails" "a thread that cannot be started is a failed spawn";
    E12 12 "a spawn that ends in a detached group leaves its process behind" "the process is disposed of";
    E13 13 "what becomes of a detached process with open sessions is left open" "it drains, is counted, and has a deadline";
    E14 14 "only a close looks at max_requests" "a process is given at most max_requests sessions in all";
    E15 15 "detached is read without the lock: a data race" "an atomic";
    E16 16 "an interrupted wait stays counted" "counters follow who waits, however the wait ends";
    E17 17 "who waits is woken with all others and looks again" "first come, first served, by hand-over";
    E18 18 "a get for a new group waits until a process happens to be idle" "one busy process for each such group takes no more sessions and makes room";
    E19 19 "max may be 0, and no wait has an end of its own" "max 0 is refused; gets may give up; the queue is bounded";
    E20 20 "raising max_per_app tells nobody" "who can now proceed does";
    E21 21 "no wake-up is lost, if cancelling is atomic" "stays so";
    E22 22 "a change of restart.txt is consumed by whoever looks first" "remembered by each group";
    E23 23 "the first sight of restart.txt is a change, and so is its deletion" "the first look is the baseline; deletion is no change";
    E24 24 "restart files are looked at again after each wake-up" "once a get";
    E25 25 "detached processes that are still busy are not counted" "what lives is at most max + max_draining";
    E26 26 "a failed spawn throws the whole group away" "healthy processes stay, and the group backs off";
    E27 27 "a broken group evicts others for each get" "a group that backs off evicts nobody, and its gets fail at once";
    E28 28 "the minimum is seen to only when a group is created" "refilled after every loss";
    E29 29 "the victim is the longest idle, whatever its group's minimum" "of a group above its minimum, if there is one";
    E30 30 "the cleaner sleeps whole periods" "until the next process is due";
    E31 31 "a local failure to connect condemns the process" "it detaches nothing";
    E32 32 "what becomes of who waits when the pool is destroyed is left open" "they are told so at once";
    E33 33 "the least busy process is found by a scan" "the group's list is kept in that order";
    E34 34 "a restart kills before it replaces" "if the group is so set, the old processes serve until new ones are ready";
}

impl Erratum {
    /// The erratum called `E12` or `12`.
    pub fn named(name: &str) -> Option<Erratum> {
        let number = name.strip_prefix(['E', 'e']).unwrap_or(name);
        Erratum::ALL.iter().copied().find(|erratum| erratum.name()[1..] == *number)
    }
}

/// Which errata a machine carries out as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules(u64);

impl Rules {
    /// Every ruling.
    pub const AS_RULED: Rules = Rules(0);
    /// The text, word for word.
    pub const AS_WRITTEN: Rules = Rules(u64::MAX);

    /// These rules, with some errata as written.
    pub fn but(self, written: &[Erratum]) -> Rules {
        written.iter().fold(self, |rules, e| Rules(rules.0 | 1 << *e as u64))
    }
    /// These rules, with some errata as ruled.
    pub fn mended(self, ruled: &[Erratum]) -> Rules {
        ruled.iter().fold(self, |rules, e| Rules(rules.0 & !(1 << *e as u64)))
    }
    /// Whether this erratum is carried out as written.
    #[inline]
    pub fn written(self, erratum: Erratum) -> bool {
        self.0 & (1 << erratum as u64) != 0
    }
}
