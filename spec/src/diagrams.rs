//! Diagrams drawn from explorations.
//!
//! The arrows are the transitions of processes, gets and owners in every step of an exploration, so the
//! diagrams are complete. They are stored in `diagrams/`, shown below, and compared by a test. A column
//! is a state or an actor; the label of an arrow names the action.
//!
//! # A process
#![doc = include_str!("../diagrams/process.svg")]
//!
//! # A get
#![doc = include_str!("../diagrams/get.svg")]
//!
//! # An owner of the load interlock
#![doc = include_str!("../diagrams/interlock.svg")]
//!
//! # Two gets, one process
#![doc = include_str!("../diagrams/sequence.svg")]

use crate::application_pool::configuration::{Config, Options};
use crate::application_pool::pool::{Action, Event, Place, Pool, SpawnResult};
use crate::application_pool::story;
use crate::chart::Chart;
use crate::checking::search::{Search, explore};
use crate::interlock::rules::Rules;
use crate::interlock::scenarios;
use crate::interlock::script::{Action as Acts, Op, Script, Step, World};
use crate::interlock::state::Interlock;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// The configurations that are explored: together they show every transition.
fn configurations() -> Vec<Config> {
    let private =
        vec![Options { max_requests: 2, ..Options::new("a").private() }, Options::new("b")];
    let everything = Config::new(private, 1, 2).but(|config| {
        (config.connects, config.max_idle_time, config.max_attempts) = (true, 1, 2);
    });
    let bounded = vec![Options { max_queue: 1, ..Options::new("a").rolling() }];
    vec![
        everything.with(|env| {
            (env.spawns_fail, env.time, env.detach) = (true, true, true);
            (env.processes_fail, env.clients_fail, env.give_up) = (true, true, true);
        }),
        Config::new(bounded, 1, 3)
            .with(|env| (env.close, env.try_get, env.touch) = (true, true, true)),
        Config::new(vec![Options::new("a").private()], 1, 2).with(|env| env.touch = true),
    ]
}

/// Returns the file name and the content of each diagram.
pub fn all() -> Vec<(&'static str, String)> {
    let (mut processes, mut gets) = (Arrows::new(), Arrows::new());
    for world in configurations() {
        collect(&world, &mut processes, &mut gets);
    }
    vec![
        ("process.svg", draw(&processes)),
        ("get.svg", draw(&gets)),
        ("interlock.svg", draw(&modes())),
        ("sequence.svg", sequence()),
    ]
}

/// Collects the transitions of an owner's modes: in all scenarios of the load interlock, and for any two
/// of its programs.
fn modes() -> Arrows {
    let programs: Vec<Script> = scenarios::programs();
    let meetings =
        programs.iter().flat_map(|a| programs.iter().map(|b| vec![a.clone(), b.clone()]));
    let worlds =
        scenarios::all().into_iter().map(|scenario| scenario.machine.scripts).chain(meetings);
    let found = RefCell::new(Arrows::new());
    let look = |before: &Interlock, action: &Acts, after: &Interlock| {
        let (from, to) = (variant(&before.mode(action.owner)), variant(&after.mode(action.owner)));
        if from != to {
            found.borrow_mut().entry((from, to)).or_default().insert(why(action.step).to_owned());
        }
        None
    };
    for scripts in worlds {
        let world = World { scripts, rules: Rules::AS_MENDED };
        let search = Search { broken_step: &look, ..Search::<World>::nothing() };
        assert!(explore(&world, &search).is_ok(), "the search has no aims");
    }
    found.into_inner()
}

fn why(step: Step) -> &'static str {
    match step {
        Step::Next(Op::Enter) => "enter",
        Step::Next(Op::Leave) => "leave",
        Step::Next(Op::Acquire(_)) => "acquire",
        Step::Next(Op::Release) => "release",
        Step::Next(Op::Drop) => "drop",
        Step::Next(Op::Permit) => "permit",
        Step::Next(Op::End) => "end",
        Step::Next(Op::Die) => "panic",
        Step::Next(_) => "?",
        Step::Granted(_) => "X",
        Step::GiveUp => "gives up",
        Step::Resumed => "C",
    }
}

fn collect(world: &Config, processes: &mut Arrows, gets: &mut Arrows) {
    let found = RefCell::new((processes, gets));
    let look = |before: &Pool, action: &Action, after: &Pool| {
        let (processes, gets) = &mut *found.borrow_mut();
        let why = why_of(action);
        let ids = before.processes.iter().chain(&after.processes).map(|p| p.identifier);
        for id in ids.collect::<BTreeSet<_>>() {
            let was_spawn = before.spawns.iter().any(|spawn| spawn.ticket == id);
            let from = before
                .find(id)
                .map_or(if was_spawn { "spawned" } else { "?" }, |p| state(before, p));
            let to = after.find(id).map_or("gone", |p| state(after, p));
            if from != to {
                let arrow = (from.to_owned(), to.to_owned());
                processes.entry(arrow).or_default().insert(why.clone());
            }
        }
        for client in 0..before.clients.len() {
            let [from, to] = [before, after].map(|pool| variant(&pool.clients[client].at));
            if from != to {
                gets.entry((from, to)).or_default().insert(why.clone());
            }
        }
        None
    };
    let search = Search { broken_step: &look, ..Search::<Config>::nothing() };
    assert!(explore(world, &search).is_ok(), "the search has no aims");
}

fn state(pool: &Pool, process: &crate::application_pool::pool::Process) -> &'static str {
    match pool.place(process) {
        Place::Draining => "draining",
        _ if process.marked => "marked",
        _ if process.disabled => "disabled",
        _ if process.sessions > 0 => "active",
        _ => "idle",
    }
}

/// Returns the name of an enumeration's variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn why_of(action: &Action) -> String {
    match action {
        Action::SpawnEnds { result, .. } => format!("Spawn: {}", variant(result)),
        _ => variant(action),
    }
}

fn draw(arrows: &Arrows) -> String {
    let states: BTreeSet<&str> = arrows.keys().flat_map(|(from, to)| [&**from, to]).collect();
    // The first state comes first, the last one last.
    let place = |state: &&str| match *state {
        "spawned" => 0,
        "gone" => 2,
        _ => 1,
    };
    let mut columns: Vec<&str> = states.into_iter().collect();
    columns.sort_by_key(place);
    let mut chart = Chart::new(columns.clone());
    for from in columns {
        for ((_, to), why) in arrows.iter().filter(|((begins, _), _)| *begins == from) {
            let why: Vec<&str> = why.iter().map(String::as_str).collect();
            chart.arrow(from, to, why.join(", "));
        }
    }
    chart.svg()
}

/// Draws two gets for a group without processes, in a pool with max 1.
fn sequence() -> String {
    let mut pool = Pool::new(Config::new(vec![Options::new("a")], 1, 2));
    let mut chart = Chart::new(["client 1", "client 2", "pool", "spawner"]);
    let actions = [
        Action::Get { client: 0, group: 0 },
        Action::Get { client: 1, group: 0 },
        Action::SpawnEnds { ticket: 1, result: SpawnResult::Process },
        Action::CloseSession { client: 0 },
        Action::CloseSession { client: 1 },
    ];
    for action in actions {
        let who = match action {
            Action::SpawnEnds { .. } => "spawner".to_owned(),
            Action::Get { client, .. } | Action::CloseSession { client } => {
                format!("client {}", client + 1)
            }
            _ => "pool".to_owned(),
        };
        let before = pool.clone();
        pool.apply(&action);
        let mut silent = pool.clone();
        silent.events.clear();
        chart.arrow(&who, "pool", story::sentence(&before, &action, &silent));
        for event in &pool.events {
            let client = |client: &usize| format!("client {}", client + 1);
            match event {
                Event::Served { client: it, process } => {
                    chart.arrow("pool", &client(it), format!("p{process}"));
                }
                Event::SpawnBegun { ticket, .. } => {
                    chart.arrow("pool", "spawner", format!("spawn p{ticket}"));
                }
                Event::Waits { client: it } => chart.arrow(&client(it), &client(it), "waits"),
                _ => {}
            }
        }
    }
    chart.svg()
}
