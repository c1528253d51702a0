//! The errata of the pseudocode, and a switch for each.
//!
//! The pseudocode is the specification, and it contains errors. Each error has a number, E1 to E41, a
//! sentence for what is written and one for the ruling: this file is their only home.
//!
//! [`Rules::AS_RULED`] makes a machine that follows every ruling; [`Rules::AS_WRITTEN`] makes one that
//! follows the pseudocode literally. `Rules::AS_RULED.but(&[E12])` follows every ruling except that of
//! E12, which shows what this ruling is needed for. In the machine's source each rule is a visible
//! switch: `if self.written(E12)`.

use crate::checking::switches::{self, Switch, switches};
use std::convert::Infallible;

switches! {
    /// An erratum of the pseudocode.
    Erratum:
    E1 "taking an idle process sets max to active + 1" "taking an idle process changes active only";
    E2 "detaching a group joins its spawner thread while holding the lock that this thread needs" "the spawn is cancelled, and no thread is joined under the lock";
    E3 "a background spawn reserves no capacity" "a spawn reserves capacity before it begins, and capacity is checked again when it ends";
    E4 "a group's first process is spawned under the lock, and a group exists only while it has processes" "every spawn runs without the lock, and gets wait in a group that outlives its processes";
    E5 "last_used is never set for a process spawned in the background" "attaching a process sets it";
    E6 "detach_group removes the group under the requester's name" "it removes the group under its own name";
    E7 "three names are undefined" "they mean detach_group, options carried with the spawn request, and processed";
    E8 "both invariants of detached are inverted" "detached means that the pool does not find the group or process";
    E9 "size is not updated when a group is detached" "size is always the number of processes";
    E10 "lists are modified while they are iterated" "they are drained from the front, or walked with a cursor";
    E11 "the flag spawning is set before the thread is created, and stays set if that fails" "a thread that cannot be started is a failed spawn";
    E12 "a spawn that ends in a detached group leaves its process running" "the process is shut down";
    E13 "the fate of a detached process with open sessions is undefined" "it drains, is counted, and has a deadline";
    E14 "max_requests is checked only when a session closes" "a process is given at most max_requests sessions in total";
    E15 "detached is read without the lock, which is a data race" "detached is atomic";
    E16 "an interrupted wait stays counted" "counters are right however a wait ends";
    E17 "every waiting get is woken and competes again" "gets are served first come, first served, by hand-off";
    E18 "a get for a new group waits until a process happens to be idle" "for such a group one busy process is marked for eviction, and makes room";
    E19 "max may be 0, a wait has no timeout, and the queue has no bound" "max 0 is refused, gets may give up, and the queue is bounded";
    E20 "raising max_per_app wakes no waiting get" "gets that can now proceed are served";
    E21 "no wake-up is lost, if cancelling is atomic" "the same";
    E22 "the first group that looks consumes a change of restart.txt" "each group remembers what it saw";
    E23 "the first sight of restart.txt counts as a change, and so does its deletion" "the first look is the baseline, and a deletion is no change";
    E24 "a get checks the restart files again after each wake-up" "a get checks them once";
    E25 "detached processes that are still busy are not counted" "at most max + max_draining processes live";
    E26 "a failed spawn throws the whole group away" "healthy processes stay, and the group backs off";
    E27 "each get for a broken group evicts a process of another group" "a group that backs off evicts no process, and its gets fail at once";
    E28 "the minimum is checked only when a group is created" "the minimum is refilled after every loss";
    E29 "the eviction victim is the process that has been idle longest, whatever its group's minimum" "processes of groups above their minimum are evicted first";
    E30 "the cleaner sleeps for whole periods" "it sleeps until the next process is due";
    E31 "a connect failure on the client's side detaches the process" "such a failure detaches no process";
    E32 "the fate of waiting gets is undefined when the pool is destroyed" "they fail at once";
    E33 "a scan finds the least busy process" "the group's list is kept in that order";
    E34 "a restart stops old processes before it starts new ones" "in a rolling restart, old processes serve until their successors are ready";
    E35 "an extra process is spawned as soon as two sessions of a process overlap, even if it has room" "it is spawned when no process of the group has room; the written rule is an option of the group";
    E36 "a process that was given its last session stays in count until that session ends" "it is detached as soon as it is given its last session: it drains, and its place is free";
    E37 "a process marked for eviction takes no more sessions, and has no deadline: one endless session starves the waiting group, and stops the one that has room" "the process marked is chosen last; any process that becomes idle makes room; after the time of a drain, the marked one is detached, and drains; a group with processes whose gets are not served for that time gets the place of an idle one";
    E38 "a get whose process has crashed queues again at the back, or is refused by the queue's bound" "it looks for another process in the section that detaches the first; it keeps its turn, and the bound does not apply to it";
    E39 "a group's name is derived by a lossy conversion, so two directories can share a group" "names are derived without loss, and a trailing slash makes no other name";
    E40 "the cleaner is told when a newcomer is due, and sleeps past an older process that has just lost the minimum's protection" "each change of protection reports the earliest due time to the cleaner";
    E41 "a get with new options, and the cleaner's look for the next due time, scan the processes of all groups" "every critical section is O(1) or O(log n)";
}

impl Erratum {
    /// Returns the name, such as `E12`.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
    /// Finds an erratum by its name, `E12` or `12`.
    pub fn named(name: &str) -> Option<Erratum> {
        let number = name.strip_prefix(['E', 'e']).unwrap_or(name);
        Erratum::ALL.iter().copied().find(|erratum| erratum.name()[1..] == *number)
    }
}

/// The set of errata that a machine carries out as written. No fault is planted in it.
pub type Rules = switches::Rules<Erratum, Infallible>;

impl Rules {
    /// Follows every ruling.
    pub const AS_RULED: Rules = Rules::AS_MENDED;
    /// Follows the pseudocode word for word.
    pub const AS_WRITTEN: Rules = Rules::ORIGINAL;
}
