//! The scenarios. Each consists of a few owners with small programs; every interleaving is explored.

use crate::interlock::rules::Rules;
use crate::interlock::script::{Op, Script, World};
use crate::interlock::state::OwnerId;
use crate::interlock::state::Purpose::{self, Load, Unload, Unnamed};

/// A scenario.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The behaviour that it shows.
    pub shows: &'static str,
    /// Its possible outcomes: which owner is refused what. Empty if a program has no end.
    pub ends: &'static [&'static str],
    /// The owners and their programs.
    pub scripts: Vec<Script>,
}

impl Scenario {
    /// Returns the machine with these rules.
    pub fn world(&self, rules: Rules) -> World {
        World { scripts: self.scripts.clone(), rules }
    }
}

/// A program.
pub type Ops = Vec<Op>;

fn within(first: Op, body: impl AsRef<[Op]>, last: Op) -> Ops {
    [&[first], body.as_ref(), &[last]].concat()
}
/// An execution.
fn run(body: impl AsRef<[Op]>) -> Ops {
    within(Op::Enter, body, Op::Leave)
}
fn permit(body: impl AsRef<[Op]>) -> Ops {
    within(Op::Permit, body, Op::End)
}
fn lock(purpose: Purpose, body: impl AsRef<[Op]>) -> Ops {
    within(Op::Acquire(purpose), body, Op::Release)
}
fn load() -> Ops {
    lock(Load, [])
}
fn unload() -> Ops {
    lock(Unload, [Op::Unload])
}
fn unload_for_a_while() -> Ops {
    within(Op::AcquireFor(Unload), [Op::Unload], Op::Release)
}
fn then(parts: impl AsRef<[Ops]>) -> Ops {
    parts.as_ref().concat()
}
fn spawn_then(child: OwnerId, body: impl AsRef<[Op]>) -> Ops {
    [&[Op::Spawn(child)], body.as_ref()].concat()
}
/// Repeats a program for ever.
fn again(body: Ops) -> Ops {
    [body, vec![Op::Again]].concat()
}
fn owner(name: &'static str, ops: Ops) -> Script {
    Script { name, parent: None, ops }
}
fn child(name: &'static str, of: OwnerId, ops: Ops) -> Script {
    Script { name, parent: Some(of), ops }
}

const SERVED: &[&str] = &["all are served"];

macro_rules! scenarios {
    ($($name:literal $shows:literal $ends:expr, $scripts:expr;)*) => {
        /// Returns all scenarios.
        pub fn all() -> Vec<Scenario> {
            vec![$(Scenario { name: $name, shows: $shows, ends: $ends, scripts: $scripts.into() }),*]
        }
    };
}

scenarios! {
    "two-loaders" "two executions load, each in its turn" SERVED, [
        owner("a", run(then([load(), vec![Op::Use]]))),
        owner("b", run(then([load(), vec![Op::Use]]))),
    ];
    "loaders-who-meet-afterwards" "one loader lets the other go first, and both resume together" SERVED, [
        owner("a", run(then([vec![Op::Barrier(0)], lock(Load, [Op::Request(1)]), vec![Op::Barrier(1)]]))),
        owner("b", run(then([vec![Op::Barrier(0)], load(), vec![Op::Barrier(1)]]))),
    ];
    "guide-with-permit" "the guide's second program: the parent permits loads while it waits for the child" SERVED, [
        owner("parent", run(then([spawn_then(1, permit([Op::Join(1)])), vec![Op::Use]]))),
        child("child", 0, run(then([load(), vec![Op::Use]]))),
    ];
    "guide-without-permit" "the guide's first program with a declared wait: the owner that closes the cycle is refused, and the other ends"
        &["child: Deadlock", "parent: Deadlock"], [
        owner("parent", run(spawn_then(1, [Op::Wait(1)]))),
        child("child", 0, run(load())),
    ];
    "guide-with-a-bystander" "the same beside an unrelated execution"
        &["child: Deadlock", "parent: Deadlock"], [
        owner("parent", run(spawn_then(1, [Op::Wait(1)]))),
        child("child", 0, run(load())),
        owner("bystander", run([Op::Use, Op::Use])),
    ];
    "guide-undeclared" "the same with an undeclared wait: the interlock cannot see it, and the time limit ends it"
        &["child: TimedOut"], [
        owner("parent", run(spawn_then(1, [Op::Join(1)]))),
        child("child", 0, run(within(Op::AcquireFor(Load), [], Op::Release))),
    ];
    "guide-futures" "the guide's third program: three futures, of which two load" SERVED, [
        owner("parent", run(then([
            vec![Op::Spawn(1), Op::Spawn(2), Op::Spawn(3)],
            permit([Op::Join(1), Op::Join(2), Op::Join(3)]),
        ]))),
        child("future 1", 0, run(load())),
        child("future 2", 0, run(load())),
        child("future 3", 0, run([Op::Use])),
    ];
    "permit-x-unload-x-child" "an unload is queued between the parent's permit and the child's entry" SERVED, [
        owner("parent", run(then([spawn_then(1, permit([Op::Join(1)])), vec![Op::Use]]))),
        child("child", 0, run(then([load(), vec![Op::Use]]))),
        owner("reloader", unload()),
    ];
    "permit-x-upgraded-unload-x-child" "the same, and the unload comes from an execution" SERVED, [
        owner("parent", run(then([spawn_then(1, permit([Op::Join(1)])), vec![Op::Use]]))),
        child("child", 0, run(then([load(), vec![Op::Use]]))),
        owner("reloader", run(then([unload(), vec![Op::Use]]))),
    ];
    "waiting-parent-x-unload" "a parent that keeps its share waits for its child, with an unload queued" SERVED, [
        owner("parent", run(spawn_then(1, [Op::Wait(1), Op::Use]))),
        child("child", 0, run([Op::Use])),
        owner("reloader", unload()),
    ];
    "grandchild-x-unload" "a grandchild whose own parent is not in an execution" SERVED, [
        owner("parent", run(spawn_then(1, permit([Op::Wait(1)])))),
        child("child", 0, spawn_then(2, [Op::Wait(2)])),
        child("grandchild", 1, run([Op::Use])),
        owner("reloader", unload()),
    ];
    "undeclared-child-x-unload" "an undeclared child waits behind the unload, and the time limit ends it"
        &["all are served", "reloader: TimedOut"], [
        owner("parent", run(spawn_then(1, permit([Op::Join(1)])))),
        owner("child", run([Op::Use])),
        owner("reloader", unload_for_a_while()),
    ];
    "child-reloads" "a child that reloads is refused because its parent waits in an execution"
        &["child: Child"], [
        owner("parent", run(spawn_then(1, permit([Op::Wait(1)])))),
        child("child", 0, run(unload())),
    ];
    "child-reloads-x-draining-parent" "the same, while the parent lets another load first"
        &["child: Child"], [
        owner("parent", run(then([spawn_then(1, load()), permit([Op::Wait(1)])]))),
        child("child", 0, unload()),
        owner("other", run(load())),
    ];
    "two-unloads" "two requests to unload in the same generation cause one unload" SERVED, [
        owner("a", run(then([unload(), vec![Op::Use]]))),
        owner("b", run(then([unload(), vec![Op::Use]]))),
    ];
    "two-unloads-x-sharer" "the same from outside an execution, beside another" SERVED, [
        owner("a", unload()),
        owner("b", run(unload())),
        owner("sharer", run([Op::Use])),
    ];
    "loads-x-unloads" "two loads and two unloads that upgrade; loads come first" SERVED, [
        owner("load a", run(load())),
        owner("load b", run(load())),
        owner("unload a", run(unload())),
        owner("unload b", run(unload())),
    ];
    "load-x-pending-unload" "an unload without a share does not overtake a load that upgrades" SERVED, [
        owner("loader", run(then([load(), vec![Op::Use]]))),
        owner("sharer", run([Op::Use])),
        owner("reloader", unload()),
        owner("newcomer", run([Op::Use])),
    ];
    "stream-x-pending-unload" "two owners that enter and leave for ever do not starve an unload" &[], [
        owner("sharer a", again(run([]))),
        owner("sharer b", again(run([]))),
        owner("reloader", unload()),
    ];
    "stream-x-upgraded-unload" "the same, and an execution unloads" &[], [
        owner("sharer a", again(run([]))),
        owner("sharer b", again(run(load()))),
        owner("reloader", run(unload())),
    ];
    "unloads-again-and-again" "one owner unloads for ever, another once" &[], [
        owner("reloader", again(run(unload()))),
        owner("sharer", again(run([Op::Use]))),
        owner("other", run(unload())),
    ];
    "two-unnamed" "two owners upgrade without a purpose, and the second is refused" &[
        "a: Deadlock", "all are served", "b: Deadlock",
    ], [
        owner("a", run(lock(Unnamed, [Op::Use]))),
        owner("b", run(lock(Unnamed, [Op::Use]))),
    ];
    "unnamed-x-load" "one owner upgrades without a purpose, and another loads" &[
        "all are served", "load: Deadlock", "unnamed: Deadlock",
    ], [
        owner("unnamed", run(lock(Unnamed, [Op::Use]))),
        owner("load", run(load())),
        owner("sharer", run([])),
    ];
    "two-unnamed-pending" "requests without shares do not block each other" SERVED, [
        owner("a", lock(Unnamed, [Op::Use])),
        owner("b", lock(Unnamed, [Op::Use])),
        owner("sharer", run([Op::Use])),
    ];
    "drain-x-unnamed" "a draining owner does not wait for a request that a third owner keeps out" &[
        "all are served", "load a: Deadlock", "load a: Deadlock, load b: Deadlock",
        "load b: Deadlock", "unnamed: Deadlock",
    ], [
        owner("load a", run(load())),
        owner("load b", run(load())),
        owner("unnamed", run(lock(Unnamed, []))),
    ];
    "drain-x-permit" "a draining owner does not wait for an unload that a permit block keeps out" &[
        "all are served", "reloader: Deadlock", "reloader: Deadlock, other: Deadlock", "waiter: Deadlock",
    ], [
        owner("reloader", run(unload())),
        owner("waiter", run(then([load(), permit([Op::Wait(0)])]))),
        owner("other", run(unload())),
    ];
    "load-in-permit" "a contended load inside a permit block leaves the block as it was" SERVED, [
        owner("parent", run(then([permit(load()), vec![Op::Use]]))),
        owner("loader", lock(Load, [])),
        owner("reloader", unload()),
    ];
    "permit-in-permit" "a permit block inside a permit block leaves the outer block as it was" SERVED, [
        owner("parent", run(then([permit(then([permit([]), vec![Op::Spawn(1)]])), vec![Op::Use]]))),
        owner("reloader", unload()),
    ];
    "run-in-permit" "an execution inside a permit block keeps others out, until it permits loads itself" SERVED, [
        owner("parent", run(then([permit(run(then([vec![Op::Use], permit([]), load()]))), vec![Op::Use]]))),
        owner("loader", run(load())),
    ];
    "unloads-in-permits" "two owners request an unload, each inside a permit block that accepts loads only" &[
        "a: Deadlock", "all are served", "b: Deadlock",
    ], [
        owner("a", run(permit(unload()))),
        owner("b", run(permit(unload()))),
    ];
    "unload-in-permit" "an unload inside a permit block accepts no more than the block" SERVED, [
        owner("parent", run(permit(run(unload())))),
        owner("reloader", unload()),
        owner("loader", run(load())),
    ];
    "nested" "every operation nests within itself, while another owner upgrades" SERVED, [
        owner("nested", run(run(then([
            lock(Load, then([load(), run([Op::Use])])),
            run([Op::Use]),
        ])))),
        owner("loader", run(load())),
    ];
    "unload-in-load" "an unload inside a load is refused because a permit block of another owner may be open" &[
        "loader: InsideLoad",
    ], [
        owner("parent", run(then([permit([]), vec![Op::Use]]))),
        owner("loader", run(lock(Load, unload()))),
    ];
    "load-in-unload" "a load inside an unload needs no further wait" SERVED, [
        owner("reloader", run(lock(Unload, then([vec![Op::Unload], load()])))),
        owner("loader", run(then([load(), vec![Op::Use]]))),
    ];
    "try" "a request that must not wait is refused, and the state stays as it was" &[
        "all are served", "reloader: WouldBlock",
    ], [
        owner("reloader", run(then([within(Op::Try(Unload), [Op::Unload], Op::Release), vec![Op::Use]]))),
        owner("sharer", run([Op::Use])),
        owner("loader", run(load())),
    ];
    "cancel-x-grant" "a load gives up as it is granted, while others load" &[
        "a: TimedOut", "a: TimedOut, b: TimedOut", "all are served", "b: TimedOut",
    ], [
        owner("a", run(then([within(Op::AcquireFor(Load), [Op::Use], Op::Release), vec![Op::Use]]))),
        owner("b", run(then([within(Op::AcquireFor(Load), [Op::Use], Op::Release), vec![Op::Use]]))),
        owner("c", run(load())),
    ];
    "cancelled-unload" "an unload that gives up leaves no trace" &[
        "all are served", "reloader: TimedOut",
    ], [
        owner("reloader", run(then([unload_for_a_while(), vec![Op::Use]]))),
        owner("loader", run(load())),
        owner("newcomer", run([Op::Use])),
    ];
    "cancelled-pending-unload" "an unload without a share that gives up leaves no trace" &[
        "all are served", "reloader: TimedOut",
    ], [
        owner("reloader", unload_for_a_while()),
        owner("sharer", run([Op::Use])),
        owner("newcomer", run([Op::Use])),
    ];
    "dies-with-a-share" "the share of a dead owner is given back" &["mortal died"], [
        owner("mortal", run([Op::Die])),
        owner("reloader", run(unload())),
    ];
    "dies-holding" "the lock and the entry of a dead owner are given back" &["mortal died"], [
        owner("mortal", run(permit(lock(Load, [Op::Die])))),
        owner("loader", run(load())),
        owner("reloader", unload()),
    ];
    "parent-loads-while-it-waits" "a holder may not wait for a child, which could not even enter"
        &["all are served", "parent: Holding"], [
        owner("parent", run(spawn_then(1, lock(Load, [Op::Wait(1)])))),
        child("child", 0, run([Op::Use])),
    ];
    "holder-waits-for-a-permitting-child" "a holder may not wait for a child in a permit block, which could not end the block"
        &["parent: Holding"], [
        owner("parent", run(spawn_then(1, lock(Load, [Op::Wait(1)])))),
        child("child", 0, run(permit(load()))),
    ];
    "drain-x-waiting-parent" "a draining child waits for a load that waits for the parent; if the parent then waits for the child, it is refused"
        &["all are served", "child: Deadlock", "parent: Deadlock"], [
        owner("parent", run(spawn_then(1, then([permit([]), vec![Op::Wait(1)]])))),
        child("child", 0, run(load())),
        owner("loader", run(load())),
    ];
    "cancelled-drain" "a draining owner gives up while another loads" SERVED, [
        owner("a", run(then([within(Op::Acquire(Load), [], Op::ReleaseFor), vec![Op::Use]]))),
        owner("b", run(then([load(), vec![Op::Use]]))),
        owner("c", run(load())),
    ];
    "dropped-lock" "an owner that drops the lock does not drain" SERVED, [
        owner("a", run(then([within(Op::Acquire(Load), [], Op::Drop), vec![Op::Use]]))),
        owner("b", run(then([within(Op::Acquire(Unload), [Op::Unload], Op::Drop), vec![Op::Use]]))),
        owner("c", within(Op::Acquire(Load), [], Op::Drop)),
    ];
    "circle-through-a-permit" "a child waits for its grandparent, which waits for the parent, which permits loads and waits for the child: the owner that closes the cycle is refused"
        &["child: Deadlock", "grandparent: Deadlock", "parent: Deadlock"], [
        owner("grandparent", run(spawn_then(1, [Op::Wait(1)]))),
        child("parent", 0, run(spawn_then(2, permit([Op::Wait(2)])))),
        child("child", 1, run(load())),
    ];
    "undeclared-through-a-permit" "the same with an undeclared wait in the permit block: the time limit ends it"
        &["child: TimedOut"], [
        owner("grandparent", run(spawn_then(1, [Op::Wait(1)]))),
        child("parent", 0, run(spawn_then(2, permit([Op::Join(2)])))),
        child("child", 1, run(within(Op::AcquireFor(Load), [], Op::Release))),
    ];
    "waits-for-both" "a parent waits for two children, one of which loads" &[
        "child: Deadlock", "parent: Deadlock",
    ], [
        owner("parent", run(then([vec![Op::Spawn(1), Op::Spawn(2)], vec![Op::WaitForAll]]))),
        child("other", 0, run([Op::Use])),
        child("child", 0, run(load())),
    ];
}

/// Returns the scenario of this name.
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

/// Programs for meetings: every property holds for any three of them.
pub fn programs() -> Vec<(&'static str, Ops)> {
    vec![
        ("run", run([Op::Use])),
        ("load", load()),
        ("unload", unload()),
        ("unnamed", lock(Unnamed, [])),
        ("run-load", run(then([load(), vec![Op::Use]]))),
        ("run-unload", run(then([unload(), vec![Op::Use]]))),
        ("run-unnamed", run(lock(Unnamed, [Op::Use]))),
        ("run-run-load", run(run(load()))),
        ("permit", run(then([permit([]), vec![Op::Use]]))),
        ("permit-load", run(permit(load()))),
        ("permit-unload", run(permit(unload()))),
        ("permit-permit-run-load", run(permit(permit(run(load()))))),
        ("run-load-load", run(lock(Load, load()))),
        ("unload-run", lock(Unload, then([vec![Op::Unload], run([Op::Use])]))),
        ("try-unload", run(within(Op::Try(Unload), [Op::Unload], Op::Release))),
        (
            "load-for-a-while",
            run(then([within(Op::AcquireFor(Load), [], Op::Release), vec![Op::Use]])),
        ),
        ("unload-for-a-while", run(then([unload_for_a_while(), vec![Op::Use]]))),
        ("permit-unload-for-a-while", run(permit(unload_for_a_while()))),
        ("dies", run(permit([Op::Die]))),
        ("dies-holding", run(lock(Load, [Op::Die]))),
    ]
}

/// Programs of a parent whose child, the owner `c`, runs any of [`programs`].
pub fn parents(c: OwnerId) -> Vec<(&'static str, Ops)> {
    vec![
        ("waits", run(spawn_then(c, [Op::Wait(c), Op::Use]))),
        ("permits-and-waits", run(spawn_then(c, then([permit([Op::Wait(c)]), vec![Op::Use]])))),
        ("loads-and-waits", run(spawn_then(c, then([load(), permit([Op::Wait(c)])])))),
        ("unloads-and-waits", run(spawn_then(c, then([unload(), permit([Op::Wait(c)])])))),
        (
            "permits-and-loads-and-waits",
            run(spawn_then(c, permit(then([load(), vec![Op::Wait(c)]])))),
        ),
        ("waits-in-a-load", run(spawn_then(c, lock(Load, [Op::Wait(c)])))),
        ("does-not-wait", run(spawn_then(c, load()))),
    ]
}
