//! The defects of the original, and which of them a machine has; and the faults that are planted to see that
//! somebody notices.
//!
//! The original is the resource pool in Elixir whose text is the source of this one; it behaves otherwise than
//! that text says, and than Apache Commons Pool, whose interface it has. A machine made with
//! [`Rules::AS_MENDED`] has none of its defects, one with `Rules::AS_MENDED.but(ClearTakesBorrowed)` has one.

use crate::switches::{self, slug, switches};

switches! {
    /// A defect of the original, by its number.
    Defect:
    ForgottenWaiter "a resource that turns out to be broken when it is handed over is destroyed, and its waiter left to time out"
       "the waiter keeps its place, and takes the next one or creates one";
    HoardedMinimum "stock of no more than min_idle is never lent: whoever borrows creates, though resources lie idle"
       "all stock can be lent, and is filled up afterwards";
    UnboundedTotal "nothing bounds active and idle ones together: there may be more than max_active of them"
       "max_total bounds all that exist, to the end of their destruction";
    ClearTakesBorrowed "clear destroys what is lent, under its borrowers' hands"
       "clear takes what is idle; clear_all lets what is lent die when it comes back";
    LateGrant "a hand-over that comes too late goes into stock, though others wait"
       "it goes to the next waiter that can use it";
    MissedEviction "what comes of age while no more than min_idle lie idle is left, and never looked at again"
       "it is looked at again when there are more";
    LeakedLoan "nobody notices that a borrower has died: what it had stays lent for ever"
       "what a dying borrower has is destroyed, and its place given back";
}

switches! {
    /// A fault that an exploration must notice.
    Planted:
    QueueJumps "who begins to wait goes to the front" "it goes to the end";
    LastComeFirstServed "what is free goes to the youngest waiter" "to the oldest that can use it";
    FullKeyBlocks "the oldest waiter of all must be served before any other, though its key is full" "a full key blocks no other";
    NewcomersQueueBehindAll "a newcomer waits if anybody waits, of whatever key" "only behind its own key";
    MaxActiveIgnored "max_active is not looked at" "it bounds the active ones of a key";
    MaxTotalPerKeyIgnored "max_total_per_key is not looked at" "it bounds all of a key";
    GrowIgnoresTotal "a pool that grows does so beyond max_total" "then it waits";
    MaxIdleIgnored "whatever comes back becomes idle" "what is more than max_idle leaves";
    TakesFromWrongEnd "the oldest is lent where the newest is asked for, and the other way round" "as the options say";
    ReturnsToWrongEnd "what comes back goes behind all that is idle" "it is the newest";
    CreatesBesideStock "who finds a broken resource creates, though others lie idle" "it takes the next";
    StockIsKept "what is lent stays in stock" "it leaves it";
    VictimIsNewest "the most recently used makes room for another key" "the least recently used does";
    VictimKeepsItsPlace "who makes room for another key is counted on" "its place is the newcomer's";
    VictimForgetsItsKey "who makes room for another key counts no more for its own" "it does until it has been destroyed";
    MadeRoomServesNobody "the end of what made room serves nobody" "it serves who waits";
    LosesItsPlace "who finds a broken resource goes back to the end of the queue" "it keeps its place";
    UnfinishedIsFinal "who takes over an unfinished creation that fails has failed" "it creates once itself";
    CreationLeaks "a creation that fails keeps its place" "it is given back";
    CancelledCreationLeaks "a creation that nobody waits for any more is lost, with its place" "it becomes stock";
    CancelledAddIsLost "a creation for stock that nobody waits for any more is dropped" "it becomes stock, as a borrower's does";
    StockTakesNothingOver "who makes stock begins anew beside what was left" "it completes that first, and needs no room for it";
    LateIsDestroyed "a hand-over that comes too late is destroyed" "it is passed on";
    LateLosesVictim "what was to make room for a hand-over that came too late is forgotten" "it is idle again";
    UnfinishedFirst "a creation that its borrower has left is lent before what is finished" "it is lent if there is nothing else";
    OfferedAgain "a creation that who has taken it over leaves, too, becomes stock again" "it is dropped";
    SparedIsNewest "what was to make room, and need not, is the newest of all" "it is idle where it was";
    ClearForgetsVictims "what is to make room when all is cleared, and need not, is idle again" "it is destroyed";
    TrimsWhatIsCalledFor "what a waiter was called for leaves, if it is more than max_idle" "it is kept for it";
    LeavesLineInName "who gives up stays in line" "it leaves it";
    ReturnServesNobody "who gives a resource back serves nobody" "it serves who waits";
    InvalidateServesNobody "who gives a resource up serves nobody" "it serves who waits";
    DetachServesNobody "who keeps a resource for good serves nobody" "it serves who waits";
    FailureServesNobody "a creation that fails serves nobody" "it serves who waits";
    DestroyedServesNobody "the end of a resource serves nobody" "it serves who waits";
    AddedServesNobody "what is added serves nobody" "it serves who waits";
    TestedServesNobody "what has been tested serves nobody" "it serves who waits";
    ResizeServesNobody "a limit that is raised serves nobody" "it serves who waits";
    GivenUpCallIsLost "who was called and gives up tells nobody" "the next is called";
    CallsNobody "nobody is called to try again" "as many as there are things to be had";
    CreatedKeepsItsAge "what was being made when all was cleared counts as new" "it is as old as what was lent";
    OldComesBack "what was lent when all was cleared becomes idle" "it is destroyed when it comes back";
    ExpiredComesBack "what has outlived its lifetime becomes idle" "it is destroyed when it comes back";
    LendsWhatIsOver "what has been idle for too long is lent if nobody has evicted it yet" "it leaves";
    LateIsLentAtAnyAge "who comes for what it was handed is lent it, though it must not be lent any more" "it takes the next, or creates one in its place";
    OverMakesNoRoom "what has been idle for too long keeps its place from a borrower of its key" "its place is the borrower's, if there is no other";
    TestedIsTaken "a resource is lent while it is tested" "it is passed over";
    ClearForgetsTested "what is tested survives a clear" "it is destroyed when its test is over";
    LowersLate "what is too much stays when a limit is lowered" "what is idle of it leaves";
    SoftBelowMinimum "who evicts does not look at min_idle" "it leaves min_idle";
    NobodyEvicts "nobody evicts" "what is due leaves";
    NobodyRefills "nobody fills up stock" "there are min_idle, where there is room";
    DestroysForEver "a destruction has no end" "it ends";
    ClosedLends "a closed pool lends" "it refuses";
    CloseTellsNobody "who waits is not told of the close" "it is told at once";
    CloseKeepsStock "a closed pool keeps its stock" "it is destroyed at once";
    ReturnsToClosed "what comes back to a closed pool becomes idle" "it is destroyed";
}

impl Defect {
    /// Returns the defect of this [name](Defect::name).
    pub fn named(name: &str) -> Option<Defect> {
        Defect::ALL.iter().copied().find(|defect| defect.name().eq_ignore_ascii_case(name))
    }
    /// Returns the name on the command line and of the stored story, such as `elixir-late-grant`.
    pub fn name(self) -> String {
        slug("elixir", self)
    }
}

/// What a machine does otherwise than as mended.
pub type Rules = switches::Rules<Defect, Planted>;
