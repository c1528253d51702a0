//! The defects of Rails v8.0.0, and the faults that the tests plant.
//!
//! A machine with [`Rules::AS_MENDED`] has none of these defects, and one with [`Rules::AS_IN_RAILS`] has all.
//! `Rules::AS_MENDED.but(&[ChildBehindUnload])` has one of them, which isolates the effect of its mend. In the
//! machine's source each rule is a visible switch: `if self.original(ChildBehindUnload)`.
//!
//! A [`Planted`] fault belongs to no implementation. Tests plant it to show that a property or a scenario detects it.

use crate::checking::switches::{self, switches};

switches! {
    /// A defect of Rails' interlock.
    Defect:
    PermitErased "a permit or a contended request inside a permit block, where no share is held, erases what the block permits"
       "every wait and every permit has a frame of its own, with or without a share, and restores what it found";
    StarvedRequest "a request of an owner without a share publishes no entry, so newcomers overtake it for ever"
       "it publishes an entry, which keeps newcomers out and accepts every other request";
    UpgradeDeadlock "requests without a purpose wait for each other, and a request may wait for its own owner"
       "each request has a purpose, and requests take turns; one that would wait for its own owner is refused at once";
    ChildBehindUnload "a child waits behind an unload that waits for its parent, and the parent waits for the child"
       "while a permit block is open, a newcomer passes a waiting unload";
    LeakedShare "a thread that dies keeps its share for ever"
       "a thread that panics drops its guards; if a program leaks a guard, only the time limit of the others ends their waits";
}

switches! {
    /// A fault that a scenario must detect.
    Planted:
    XWithoutHolder "X ignores the holder" "at most one owner holds the lock";
    XWithoutShares "X ignores shares" "the owner that holds the lock is alone";
    XWithoutEntries "X ignores entries" "a wait or a permit block limits the requests that may enter meanwhile";
    NWithoutHolder "N ignores the holder" "a newcomer waits for the holder";
    NWithoutEntries "N ignores entries" "a newcomer waits for earlier requests";
    PassesWithoutPermit "a newcomer passes a waiting unload although no permit block is open" "it waits";
    NeverPasses "a newcomer never passes a waiting unload" "it passes while a permit block is open";
    PassesLoads "a newcomer passes a waiting load while a permit block is open" "it waits";
    CWithoutHolder "C ignores the holder" "an owner that resumes waits for the holder";
    ENever "E is never true" "the owner that releases the lock lets the others of its kind go first";
    EWithoutOthers "E ignores whether the others accept the request" "a draining owner waits only for requests that can go";
    PermitAcceptsUnload "a permit block accepts unloads" "it accepts loads only";
    LoadAcceptsUnload "a waiting load accepts unloads" "loads come first";
    UnloadRefusesLoad "a waiting unload accepts no load" "loads come first";
    UnloadRefusesUnload "a waiting unload accepts no other unload" "unloads take turns";
    ResumingAcceptsUnload "an owner that resumes accepts unloads" "its execution goes on with the code that it saw";
    FrameWidens "a wait inside a permit block accepts what the block does not" "never more than the block";
    FrameLosesShares "the shares are not given back after a wait" "the owner gets back as many as before";
    LimitLosesShares "an owner that gives up a wait loses its shares" "it gets them back when the holder releases";
    LimitIgnoresHolder "an owner that gives up takes its shares back beside the holder" "it waits for the holder";
    WaitKeepsShares "an owner that waits for the lock keeps its shares" "it gives them up";
    ReleaseAtOnce "the first release frees the lock" "the outermost release frees it";
    UnloadInView "an unload in a nested execution is granted" "it is refused: the outer code sees the same world";
    UnloadInPermit "an unload in a permit block of the same thread is granted" "it is refused";
    UnloadInHold "an unload inside a load is granted" "it is refused: permit blocks may be open during a load, and not during an unload";
    PermitInHold "a permit block inside a load or an unload begins" "it is refused: its own owner keeps others out";
    WaitWithoutWake "an owner that gives up its shares to wait does not wake the others" "it wakes them";
    LeaveWithoutWake "an owner that leaves does not wake the others" "it wakes them";
    ReleaseWithoutWake "an owner that releases the lock does not wake the others" "it wakes them";
    ResumedWithoutWake "an owner that has its shares again does not wake the others" "it wakes them";
    PermitWithoutWake "an owner that permits loads does not wake the others" "it wakes them";
    GivingUpWithoutWake "an owner that gives up does not wake the others" "it wakes them";
    UnwindWithoutWake "a thread that panics does not wake the others" "it wakes them";
}

/// How a machine differs from the mended one.
pub type Rules = switches::Rules<Defect, Planted>;

impl Rules {
    /// Rails, with all of its defects.
    pub const AS_IN_RAILS: Rules = Rules::ORIGINAL;
}
