//! The defects of the original, and which of them a machine has.
//!
//! The original is Rails v8.0.0, where the whole interlock still exists. A machine made with
//! [`Rules::AS_MENDED`] has none of its defects; [`Rules::AS_IN_RAILS`] has all; and
//! `Rules::AS_MENDED.but(ChildBehindUnload)` has one, which isolates what its mend is good for. In the machine's
//! source each rule is a visible switch: `if self.original(ChildBehindUnload)`.
//!
//! A [`Planted`] fault is nobody's rule. It is there to see that somebody would notice.

use crate::switches::{self, slug, switches};

switches! {
    /// A defect of the original, by its number.
    Defect:
    PermitErased "a permit or a contended request inside a permit block, where no share is held, erases what the block permits"
       "every wait and every permit has a frame of its own, share or no share, and puts back what it found";
    StarvedRequest "a request of an owner without a share is published nowhere, so that newcomers overtake it for ever"
       "it is published, keeps newcomers out, and lets every other request pass";
    UpgradeDeadlock "requests that wait for each other, or for a child that waits for them, wait for ever"
       "who would close such a circle is told so, and a child that wants to reload is refused";
    ChildBehindUnload "a child waits behind an unload that waits for its parent, who waits for the child"
       "the child of a live execution waits for nobody but the holder";
    LeakedShare "what an owner that died had stays taken for ever"
       "it can be given back";
}

switches! {
    /// A fault that a scenario must notice.
    Planted:
    XWithoutHolder "X does not look at the holder" "at most one holds the lock";
    XWithoutShares "X does not look at shares" "whoever holds the lock is alone";
    XWithoutEntries "X does not look at entries" "a wait or a permit block says who may enter meanwhile";
    NWithoutHolder "N does not look at the holder" "who enters waits for the holder";
    NWithoutEntries "N does not look at entries" "who enters waits for requests that came before";
    CWithoutHolder "C does not look at the holder" "who resumes waits for the holder";
    ENever "E is never true" "who releases the lock lets the others of its kind go first";
    EWithoutOthers "E does not ask whether the others accept" "who lets others go first waits only for those who can";
    PermitAcceptsUnload "a permit block lets an unload in" "only loads";
    LoadAcceptsUnload "a waiting load lets an unload in" "loads come first";
    UnloadRefusesLoad "a waiting unload lets no load in" "loads come first";
    UnloadRefusesUnload "a waiting unload lets no other in" "unloads take turns";
    PendingRefuses "a request without a share lets nobody pass" "it has nothing to lose, and lets all requests pass";
    FrameWidens "a wait inside a permit block lets in what the block does not" "never more than the block";
    FrameLosesShares "the shares are not given back after a wait" "as many as before";
    WaitKeepsShares "who waits for the lock keeps its shares" "it gives them up";
    ReleaseAtOnce "the first release frees the lock" "the outermost does";
    NoSecondLook "who waited for an unload does not ask whether somebody has reloaded meanwhile" "it asks";
    GivesUpAtOnce "who gives up takes its shares back under the holder's feet" "it waits for the holder";
    UnloadInsideLoad "an unload inside a load is granted" "it is refused: a load tells others less than an unload must";
    ChildUnloads "the child of a live execution may ask for an unload" "it is refused";
    DrainingIsNotLive "an owner that drains is no live ancestor" "whoever is in an execution is";
    AllBlockedAtRequest "a deadlock is seen only when a request leaves nobody at all who is not blocked" "every circle is seen by whoever closes it";
    NobodyIsTold "nobody is told that it would wait for itself" "it is refused";
    HolderWaits "who holds the lock may wait for a child" "it is refused";
    WaitWakesNobody "who gives up its shares to wait wakes nobody" "it does";
    LeaveWakesNobody "who leaves wakes nobody" "it does";
    ReleaseWakesNobody "who releases the lock wakes nobody" "it does";
    DrainedWakesNobody "who has let others go first wakes nobody afterwards" "it does";
    PermitWakesNobody "who permits loads wakes nobody" "it does";
    GivingUpWakesNobody "who gives up wakes nobody" "it does";
    ForfeitWakesNobody "what a dead owner had is given back silently" "it wakes";
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

/// What a machine does otherwise than as mended.
pub type Rules = switches::Rules<Defect, Planted>;

impl Rules {
    /// The original.
    pub const AS_IN_RAILS: Rules = Rules::ORIGINAL;
}
