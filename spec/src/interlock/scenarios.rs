//! The scenarios. Each consists of a few owners with small programs; every interleaving is explored. The figures beside
//! the name are the pinned numbers of states and steps, and the depth.

use crate::checking::system::{self, Named};
use crate::interlock::rules::Rules;
use crate::interlock::script::{Op, Script, World};
use crate::interlock::state::OwnerId;
use crate::interlock::state::Purpose::{self, Load, Unload, Unnamed};

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
fn then(parts: impl AsRef<[Ops]>) -> Ops {
    parts.as_ref().concat()
}
fn spawn_then(child: OwnerId, body: impl AsRef<[Op]>) -> Ops {
    [&[Op::Spawn(child)], body.as_ref()].concat()
}
fn then_use(body: Ops) -> Ops {
    [body, vec![Op::Use]].concat()
}
/// Repeats a program for ever.
pub fn again(body: Ops) -> Ops {
    [body, vec![Op::Again]].concat()
}
/// An owner whose waits have no time limit.
pub fn owner(name: &'static str, ops: Ops) -> Script {
    Script { name, limited: false, ops }
}
/// An owner whose waits have a time limit, or may be dropped.
pub fn limited(name: &'static str, ops: Ops) -> Script {
    Script { name, limited: true, ops }
}

const SERVED: &[&str] = &["all are served"];

macro_rules! scenarios {
    ($($name:literal [$states:literal, $steps:literal, $depth:literal] $shows:literal $ends:expr, $scripts:expr;)*) => {
        /// Returns all scenarios. The outcomes say which owner is refused what; there are none if a program has no end.
        pub fn all() -> Vec<Named<World>> {
            vec![$(Named {
                name: $name,
                about: $shows.into(),
                machine: World { scripts: $scripts.into(), rules: Rules::AS_MENDED },
                pinned: ($states, $steps, $depth),
                ends: $ends,
            }),*]
        }
    };
}

scenarios! {
    "two-loaders" [49, 68, 10] "two executions load, each in its turn" SERVED, [
        owner("a", run(then_use(load()))), owner("b", run(then_use(load()))),
    ];
    "load-in-turn" [12, 11, 11] "the owner that releases lets the other load first, and does not keep it out by its share" SERVED, [
        owner("a", run(then([lock(Load, [Op::Spawn(1), Op::Request(1)]), vec![Op::Join(1)]]))), owner("b", load()),
    ];
    "guide-without-permit" [10, 10, 8] "the guide's first program: the interlock does not know of the join, and the time limit ends the wait"
        &["child: TimedOut"], [
        owner("parent", run(spawn_then(1, [Op::Join(1)]))), limited("child", run(load())),
    ];
    "guide-with-permit" [16, 17, 12] "the guide's second program: the parent permits loads while it waits for the child" SERVED, [
        owner("parent", run(then_use(spawn_then(1, permit([Op::Join(1)]))))), owner("child", run(then_use(load()))),
    ];
    "guide-futures" [209, 412, 21] "the guide's third program: three futures, of which two load" SERVED, [
        owner("parent", run(then([vec![Op::Spawn(1), Op::Spawn(2), Op::Spawn(3)], permit([Op::Join(1), Op::Join(2), Op::Join(3)])]))),
        owner("future 1", run(load())), owner("future 2", run(load())), owner("future 3", run([Op::Use])),
    ];
    "child-x-unload" [43, 56, 10] "without a permit block, the child waits behind a queued unload, and a time limit ends one of the waits"
        &["all are served", "child: TimedOut", "child: TimedOut, reloader: TimedOut", "reloader: TimedOut"], [
        owner("parent", run(spawn_then(1, [Op::Join(1)]))), limited("child", run([Op::Use])),
        limited("reloader", unload()),
    ];
    "permit-x-unload-x-child" [51, 70, 15] "an unload is queued between the parent's permit and the child's entry, and the child passes it" SERVED, [
        owner("parent", run(then_use(spawn_then(1, permit([Op::Join(1)]))))), owner("child", run(then_use(load()))),
        owner("reloader", unload()),
    ];
    "permit-x-upgraded-unload-x-child" [84, 133, 18] "the same, and the unload comes from an execution" SERVED, [
        owner("parent", run(then_use(spawn_then(1, permit([Op::Join(1)]))))), owner("child", run(then_use(load()))),
        owner("reloader", run(then_use(unload()))),
    ];
    "permit-x-unload-x-child-x-stream" [214, 514, 19] "the same, and other executions begin again and again" &[], [
        owner("parent", run(then_use(spawn_then(1, permit([Op::Join(1)]))))), owner("child", run(then_use(load()))),
        owner("reloader", run(unload())), owner("stream", again(run([Op::Use]))),
    ];
    "child-reloads" [17, 23, 10] "a child that reloads waits for its parent's permit block, and the time limit ends that"
        &["child: TimedOut"], [
        owner("parent", run(spawn_then(1, permit([Op::Join(1)])))), limited("child", run(unload())),
    ];
    "loads-x-unloads" [752, 1322, 18] "two loads and two unloads that upgrade; loads come first" SERVED, [
        owner("load a", run(load())), owner("load b", run(load())), owner("unload a", run(unload())),
        owner("unload b", run(unload())),
    ];
    "load-x-permit-x-newcomer" [423, 1147, 14] "a newcomer passes no waiting load, although a permit block is open" SERVED, [
        owner("parent", run(permit([]))), owner("loader", run(load())), owner("sharer", run([Op::Use])),
        owner("newcomer", run([Op::Use])),
    ];
    "stream-x-pending-unload" [14, 27, 5] "two owners that enter and leave for ever do not starve an unload" &[], [
        owner("sharer a", again(run([]))), owner("sharer b", again(run([]))), owner("reloader", unload()),
    ];
    "stream-x-upgraded-unload" [43, 85, 9] "the same, and an execution unloads" &[], [
        owner("sharer a", again(run([]))), owner("sharer b", again(run(load()))), owner("reloader", run(unload())),
    ];
    "unloads-again-and-again" [80, 154, 12] "one owner unloads for ever, another once" &[], [
        owner("reloader", again(run(unload()))), owner("sharer", again(run([Op::Use]))),
        owner("other", run(unload())),
    ];
    "two-unnamed" [44, 54, 10] "two owners upgrade without a purpose: as mended, both load in turn" SERVED, [
        owner("a", run(lock(Unnamed, [Op::Use]))), owner("b", run(lock(Unnamed, [Op::Use]))),
    ];
    "drain-x-permit" [48, 63, 22] "a draining owner does not wait for an unload that a later permit block keeps out" SERVED, [
        owner("a", run(lock(Unload, [Op::Unload, Op::Spawn(1), Op::Spawn(2), Op::Request(1), Op::Request(2)]))),
        owner("b", vec![Op::Acquire(Unload), Op::Enter, Op::Drop, Op::Permit, Op::Join(0), Op::End, Op::Leave]),
        owner("c", unload()),
    ];
    "load-in-permit" [178, 305, 14] "a contended load inside a permit block leaves the block as it was" SERVED, [
        owner("parent", run(then_use(permit(load())))), owner("loader", run(load())), owner("reloader", unload()),
    ];
    "permit-in-permit" [16, 18, 11] "a permit block inside a permit block leaves the outer block as it was" SERVED, [
        owner("parent", run(then_use(permit(then([permit([]), vec![Op::Spawn(1)]]))))), owner("reloader", unload()),
    ];
    "run-in-permit" [271, 483, 19] "an execution inside a permit block keeps others out, until it permits loads itself" SERVED, [
        owner("parent", run(then_use(permit(run(then([vec![Op::Use], permit([]), load()])))))),
        owner("loader", run(load())), owner("reloader", unload()),
    ];
    "unload-in-permit" [151, 297, 15] "an unload in a permit block of the same thread is refused, also in an execution there"
        &["a: Deadlock, b: Deadlock"], [
        owner("a", run(permit(unload()))), owner("b", run(permit(run(unload())))), owner("reloader", unload()),
    ];
    "nested" [85, 114, 18] "loads and executions nest in each other, while another owner upgrades" SERVED, [
        owner("nested", run(run(then([lock(Load, then([load(), run([Op::Use])])), run([Op::Use])])))),
        owner("loader", run(load())),
    ];
    "nested-unload" [38, 55, 11] "an unload in a nested execution is refused" &["nested: Deadlock"], [
        owner("nested", run(then_use(run(unload())))), owner("reloader", run(unload())),
    ];
    "unload-in-load" [39, 57, 10] "an unload inside a load is refused because a permit block of another owner may be open"
        &["loader: Deadlock"], [
        owner("parent", run(then_use(permit([])))), owner("loader", run(lock(Load, unload()))),
    ];
    "permit-in-load" [13, 15, 9] "a permit block inside a load is refused, because its own owner keeps others out" &["loader: Deadlock"], [
        owner("loader", run(lock(Load, spawn_then(1, permit([Op::Join(1)]))))), owner("child", run([Op::Use])),
    ];
    "cancel-x-grant" [1280, 3373, 18] "a load gives up as it is granted, while others load" &[
        "a: TimedOut", "a: TimedOut, b: TimedOut", "all are served", "b: TimedOut",
    ], [
        limited("a", run(then([lock(Load, [Op::Use]), load()]))),
        limited("b", run(then_use(lock(Load, [Op::Use])))), owner("c", run(load())),
    ];
    "cancelled-unload" [349, 697, 15] "an unload that gives up leaves no trace, and no later unload comes before the end of its execution"
        &["all are served", "reloader: TimedOut"], [
        limited("reloader", run(then_use(unload()))), owner("loader", run(load())), owner("other", run(unload())),
    ];
    "cancelled-end" [237, 468, 13] "an owner does not wait at the end of its permit block, and goes on without its share until the holder releases"
        &["all are served", "parent: TimedOut"], [
        limited("parent", run(then([permit([]), load()]))), owner("loader", run(load())),
        owner("reloader", unload()),
    ];
    "cancelled-drain" [503, 1103, 15] "a draining owner gives up while another loads" &["a: TimedOut", "all are served"], [
        limited("a", run(then_use(load()))), owner("b", run(then_use(load()))), owner("c", run(load())),
    ];
    "dies-with-a-share" [18, 23, 7] "a thread that panics gives its share back" SERVED, [
        owner("mortal", run([Op::Die])), owner("reloader", run(unload())),
    ];
    "leaked-share" [14, 16, 6] "a guard that is leaked keeps its share for ever, and the time limit ends the wait of another"
        &["all are served", "reloader: TimedOut"], [
        owner("leaking", vec![Op::Enter]), limited("reloader", run(unload())),
    ];
}

/// Returns the scenario of this name.
pub fn named(name: &str) -> Option<World> {
    system::named(all(), name).map(|named| named.machine)
}

/// Programs for meetings: every property holds for any three of them.
pub fn programs() -> Vec<Script> {
    vec![
        owner("run", run([Op::Use])),
        owner("unload", unload()),
        owner("run-load", run(then_use(load()))),
        owner("run-unload", run(then_use(unload()))),
        owner("run-run-load", run(run(load()))),
        owner("permit", run(then_use(permit([])))),
        owner("permit-load", run(permit(load()))),
        owner("permit-permit-run-load", run(permit(permit(run(load()))))),
        owner("run-load-load", run(lock(Load, load()))),
        owner("load-drop-permit", run(then([within(Op::Acquire(Load), [], Op::Drop), permit([])]))),
        owner("unload-run", lock(Unload, then([vec![Op::Unload], run([Op::Use])]))),
        limited("limited-load", run(then_use(lock(Load, [])))),
        limited("limited-unload", run(then_use(unload()))),
        limited("limited-permit", run(then([permit([]), load()]))),
        limited("limited-run-in-permit", run(permit(run(load())))),
        owner("dies", run(permit([Op::Die]))),
    ]
}

/// Programs of a parent that waits for the owner `c`, each time in a permit block.
pub fn parents(c: OwnerId) -> Vec<Script> {
    let waits = || permit([Op::Join(c)]);
    vec![
        owner("permits", run(spawn_then(c, then_use(waits())))),
        owner("loads-and-permits", run(spawn_then(c, then([load(), waits()])))),
        owner("unloads-and-permits", run(spawn_then(c, then([unload(), waits()])))),
        owner("permits-in-a-nested-execution", run(spawn_then(c, run(then_use(waits()))))),
        owner("permits-twice", run(spawn_then(c, then([permit(run(load())), permit(waits())])))),
        owner("permits-inside-a-permit", run(spawn_then(c, permit(run(then([load(), waits()])))))),
    ]
}
