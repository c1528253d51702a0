//! The defects of the Elixir pool, and the faults that the tests plant.
//!
//! A machine with [`Rules::AS_MENDED`] has none of these defects. One with `Rules::AS_MENDED.but(&[ClearTakesBorrowed])`
//! has one of them. A [`Planted`] fault belongs to no implementation: tests plant it to show that an exploration
//! detects it.

use crate::checking::switches::{self, switches};

switches! {
    /// A defect of the Elixir pool.
    Defect:
    ForgottenWaiter "a resource that turns out to be broken at its hand-off is destroyed, and its waiter times out"
       "the waiter keeps its place, and takes the next resource or creates one";
    HoardedMinimum "an idle list of min_idle resources or fewer is never lent from: borrowers create although resources are idle"
       "every idle resource can be lent, and the list is refilled afterwards";
    UnboundedTotal "active and idle resources together have no bound: there may be more than max_active"
       "max_total bounds all resources until the end of their destruction";
    ClearTakesBorrowed "clear destroys borrowed resources while they are in use"
       "clear takes idle resources; clear_all destroys borrowed ones when they return";
    LateGrant "a late grant goes to the idle list although others wait"
       "it goes to the next waiter that can use it";
    MissedEviction "a resource that comes of age while no more than min_idle are idle stays, and is never considered again"
       "it is considered again when more are idle";
    LeakedLoan "the death of a borrower goes unnoticed: its resource stays lent for ever"
       "the resource of a dying borrower is destroyed, and its place given back";
}

switches! {
    /// A fault that an exploration must detect.
    Planted:
    QueueJumps "a new waiter goes to the front of the line" "it goes to the end";
    LastComeFirstServed "a free resource goes to the youngest waiter" "to the oldest that can use it";
    FullKeyBlocks "the oldest waiter must be served first although its key is full" "a full key blocks no other";
    NewcomersQueueBehindAll "a newcomer waits behind waiters of any key" "only behind those of its own key";
    MaxActiveIgnored "max_active is ignored" "it bounds the active resources of a key";
    MaxTotalPerKeyIgnored "max_total_per_key is ignored" "it bounds all resources of a key";
    GrowIgnoresTotal "a pool that grows exceeds max_total" "then borrowers wait";
    MaxIdleIgnored "every returned resource becomes idle" "a resource beyond max_idle leaves";
    TakesFromWrongEnd "the oldest is lent where the newest should be, and vice versa" "as the options say";
    ReturnsToWrongEnd "a returned resource goes behind all idle ones" "it is the newest";
    CreatesBesideIdle "a borrower with a broken resource creates although others are idle" "it takes the next";
    TakenStaysIdle "a lent resource stays in the idle list" "it leaves the list";
    VictimIsNewest "the most recently used resource is evicted for another key" "the least recently used does";
    VictimKeepsItsPlace "the eviction victim still counts in the pool's total" "its place is the newcomer's";
    VictimForgetsItsKey "the eviction victim no longer counts for its key" "it counts until its destruction";
    EvictionServesNoWaiter "the end of an eviction serves no waiter" "it serves the waiters";
    LosesItsPlace "a borrower with a broken resource goes to the end of the line" "it keeps its place";
    CreationLeaks "a failed creation keeps its place" "the place is given back";
    CancelledCreationLeaks "a creation that its borrower leaves is lost with its place" "its place is given back";
    OrdersTooFew "the pool creates for one waiter at a time" "for each that could be lent to";
    OrdersTooMany "the pool creates more than its waiters need" "as many";
    OrdersForTheLast "a free place goes to the key of the oldest waiter, for whom the pool creates already" "to the oldest waiter without a creation";
    OverdueCounts "an overdue creation counts as one in flight" "another is ordered beside it";
    OverdueWithoutBound "overdue creations do not count for max_active" "they are bounded by it";
    OverdueStays "an overdue creation keeps the place that a waiter needs" "it is dropped";
    DropsAwaited "an overdue creation is dropped while a borrower waits that waited when it was ordered" "it stays";
    StaleFailure "a borrower gets the error of a creation that was ordered before its call" "nobody does";
    FailureIsTheLast "the error of a creation goes to the youngest waiter" "to the oldest";
    FreshIsTakenAgain "a borrower whose new resource fails takes the next" "the failure is its own";
    MaxCreatingIgnored "max_creating is ignored" "it bounds the creations in flight";
    ClearAllKeepsOrders "a creation in flight survives clear_all" "it is dropped";
    CloseKeepsOrders "a creation in flight survives the close" "it is dropped";
    LateGrantDestroyed "a late grant is destroyed" "it is passed on";
    LateGrantLosesVictim "the eviction victim of a late grant is lost" "it is idle again";
    SparedIsNewest "a spared eviction victim is the newest of all" "it returns to its place in the idle list";
    ClearForgetsVictims "an eviction victim is idle again after a clear" "it is destroyed";
    TrimsCalledFor "a resource that a called waiter should get leaves if it exceeds max_idle" "it is kept for the waiter";
    LeavesLineInName "a borrower that gives up stays in line" "it leaves the line";
    ReturnServesNoWaiter "a return serves no waiter" "it serves the waiters";
    InvalidateServesNoWaiter "an invalidation serves no waiter" "it serves the waiters";
    DetachServesNoWaiter "a detachment serves no waiter" "it serves the waiters";
    FailureServesNoWaiter "a failed creation serves no waiter" "it serves the waiters";
    DestroyedServesNoWaiter "the end of a destruction serves no waiter" "it serves the waiters";
    AddedServesNoWaiter "an addition serves no waiter" "it serves the waiters";
    TestedServesNoWaiter "the end of a test serves no waiter" "it serves the waiters";
    ResizeServesNoWaiter "a raised limit serves no waiter" "it serves the waiters";
    GivenUpCallIsLost "a called waiter that gives up loses its call" "the next waiter is called";
    RacesAreEndless "a waiter may lose any number of races to newcomers" "after some it is served directly";
    CallsNoWaiter "no waiter is called to retry" "as many as there are free resources and places";
    CreatedStaysNew "a creation in flight counts as new after clear_all" "it is as old as the borrowed resources";
    OldComesBack "a resource that was borrowed during clear_all becomes idle" "it is destroyed on its return";
    ExpiredComesBack "a resource that has outlived its lifetime becomes idle" "it is destroyed on its return";
    LendsExpired "an expired resource is lent before its eviction" "it leaves";
    LateGrantLendsOld "a borrower gets its grant although it has expired" "it takes the next, or creates one in its place";
    ExpiredKeepsPlace "an expired resource keeps its place from a borrower of its key" "the borrower gets its place, if there is no other";
    TestedIsTaken "a resource is lent during its test" "it is passed over";
    ClearForgetsTested "a resource under test survives a clear" "it is destroyed when its test ends";
    LowersLate "surplus resources stay when a limit is lowered" "the idle ones leave";
    SoftBelowMinimum "eviction ignores min_idle" "it leaves min_idle";
    NeverEvicts "no resource is evicted" "those that are due leave";
    NeverRefills "the idle list is not refilled" "it has min_idle, where there is room";
    DestroysForEver "a destruction never ends" "it ends";
    ClosedLends "a closed pool lends" "it refuses";
    CloseLeavesWaiters "a close does not end the waits" "it ends them at once";
    CloseKeepsIdle "a closed pool keeps its idle list" "it destroys it at once";
    ReturnsToClosed "a resource that returns to a closed pool becomes idle" "it is destroyed";
}

/// How a machine differs from the mended one.
pub type Rules = switches::Rules<Defect, Planted>;
