//! The defects of Rails v8.0.0, and the faults that the tests plant.
//!
//! A machine with [`Rules::AS_MENDED`] has none of these defects, and one with [`Rules::AS_IN_RAILS`] has all.
//! `Rules::AS_MENDED.but(ChildBehindUnload)` has one of them, which isolates the effect of its mend. In the
//! machine's source each rule is a visible switch: `if self.original(ChildBehindUnload)`.
//!
//! A [`Planted`] fault belongs to no implementation. Tests plant it to show that a property or a scenario detects it.

use crate::switches::{self, slug, switches};

switches! {
    /// A defect of Rails' interlock.
    Defect:
    PermitErased "a permit or a contended request inside a permit block, where no share is held, erases what the block permits"
       "every wait and every permit has a frame of its own, with or without a share, and restores what it found";
    StarvedRequest "a request of an owner without a share publishes no entry, so newcomers overtake it for ever"
       "it publishes an entry, which keeps newcomers out and accepts every other request";
    UpgradeDeadlock "requests that wait for each other, or for a child that waits for them, wait for ever"
       "the request that would close such a cycle is refused, and so is a child that wants to reload";
    ChildBehindUnload "a child waits behind an unload that waits for its parent, and the parent waits for the child"
       "the child of a live execution waits for the holder only";
    LeakedShare "the shares of an owner that died stay taken for ever"
       "they can be given back";
}

switches! {
    /// A fault that a scenario must detect.
    Planted:
    XWithoutHolder "X ignores the holder" "at most one owner holds the lock";
    XWithoutShares "X ignores shares" "the owner that holds the lock is alone";
    XWithoutEntries "X ignores entries" "a wait or a permit block limits the requests that may enter meanwhile";
    NWithoutHolder "N ignores the holder" "a newcomer waits for the holder";
    NWithoutEntries "N ignores entries" "a newcomer waits for earlier requests";
    CWithoutHolder "C ignores the holder" "an owner that resumes waits for the holder";
    ENever "E is never true" "the owner that releases the lock lets the others of its kind go first";
    EWithoutOthers "E ignores whether the others accept the request" "a draining owner waits only for requests that can go";
    PermitAcceptsUnload "a permit block accepts unloads" "it accepts loads only";
    LoadAcceptsUnload "a waiting load accepts unloads" "loads come first";
    UnloadRefusesLoad "a waiting unload accepts no load" "loads come first";
    UnloadRefusesUnload "a waiting unload accepts no other unload" "unloads take turns";
    PendingRefuses "a request without a share accepts no other request" "it has no share to lose, and accepts all requests";
    FrameWidens "a wait inside a permit block accepts what the block does not" "never more than the block";
    FrameLosesShares "the shares are not given back after a wait" "the owner gets back as many as before";
    WaitKeepsShares "an owner that waits for the lock keeps its shares" "it gives them up";
    ReleaseAtOnce "the first release frees the lock" "the outermost release frees it";
    NoSecondLook "an owner that waited for an unload does not check whether another has reloaded meanwhile" "it checks";
    GivesUpAtOnce "an owner that gives up takes its shares back beside the holder" "it waits for the holder";
    UnloadInsideLoad "an unload inside a load is granted" "it is refused: permit blocks may be open during a load, and not during an unload";
    ChildUnloads "the child of a live execution may request an unload" "it is refused";
    DrainingIsNotLive "a draining owner is no live ancestor" "every owner in an execution is";
    AllBlockedAtRequest "a deadlock is seen only when a request leaves every owner blocked" "the owner that closes a cycle sees it";
    DeadlockUnreported "a request that would wait for itself waits" "it is refused";
    HolderWaits "an owner that holds the lock may wait for a child" "it is refused";
    WaitWithoutWake "an owner that gives up its shares to wait does not wake the others" "it wakes them";
    LeaveWithoutWake "an owner that leaves does not wake the others" "it wakes them";
    ReleaseWithoutWake "an owner that releases the lock does not wake the others" "it wakes them";
    DrainedWithoutWake "an owner that has drained does not wake the others" "it wakes them";
    PermitWithoutWake "an owner that permits loads does not wake the others" "it wakes them";
    GivingUpWithoutWake "an owner that gives up does not wake the others" "it wakes them";
    ForfeitWithoutWake "giving back what a dead owner had does not wake the others" "it wakes them";
}

impl Defect {
    /// Returns the defect of this [name](Defect::name).
    pub fn named(name: &str) -> Option<Defect> {
        Defect::ALL.iter().copied().find(|defect| defect.name().eq_ignore_ascii_case(name))
    }
    /// Returns the name on the command line and of the stored story, such as `rails-upgrade-deadlock`.
    pub fn name(self) -> String {
        slug("rails", self)
    }
}

/// How a machine differs from the mended one.
pub type Rules = switches::Rules<Defect, Planted>;

impl Rules {
    /// Rails, with all of its defects.
    pub const AS_IN_RAILS: Rules = Rules::ORIGINAL;
}
