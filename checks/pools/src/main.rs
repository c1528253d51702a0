//! Works both pools for minutes, and looks whether anything is lost: `cargo xtask checks-pools [SECONDS [SEED]]`.
//!
//! Four *courses* take turns, each with a pool of its own:
//! - an application pool of processes in memory, whose clock jumps;
//! - an application pool of child processes;
//! - a resource pool of threads, whose clock jumps;
//! - a resource pool of tasks on tokio, with time limits.
//!
//! In its turn a course works its pool by random calls. Processes crash, factories fail, panic and hang, and callers
//! are cancelled. Limits change, and groups and resources are restarted and cleared. Debug builds assert every
//! invariant after each critical section.
//!
//! After each turn the course stops, and asserts that each loan, slot and process is accounted for:
//! - no caller waits, and no loan or session is counted;
//! - as many processes or resources live as the pool says, and its totals agree with its events;
//! - every slot can be borrowed at once, and not one more.
//!
//! Every fourth turn the pool is then closed, and must be empty. The next turn opens another one with other options.
//! The pool of children stays open to the end.
//!
//! When the pools of the others are closed, the run is *quiet*: it counts allocated bytes, the resident set, threads
//! and open files. The highest numbers of the first tenth of the run, and of the rest of it, must agree up to
//! [`memory::BOUNDS`]. A panic that no script asked for ends the run, on whatever thread.

mod application;
mod children;
mod course;
mod memory;
#[path = "../../../tests/common/random.rs"]
#[allow(dead_code)] // Its seeds from the environment are for tests.
mod random;
mod resource_tasks;
mod resource_threads;

use course::{Course, DONE, before_long};
use memory::{Memory, Quiet};
use random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Turns until a pool is closed and another one opened.
const TURNS: u32 = 4;

/// Opens a pool of a course, with random options.
type Open = fn(&mut Random) -> Box<dyn Course>;

const COURSES: [(&str, Open); 3] = [
    ("processes in memory", |random| Box::new(application::InMemory::open(random))),
    ("resources, threads", |random| Box::new(resource_threads::Threads::open(random))),
    ("resources, tasks", |random| Box::new(resource_tasks::Tasks::open(random))),
];

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| match arg.parse::<u64>() {
        Ok(number) => number,
        Err(_) => panic!("{arg}: cargo xtask checks-pools [SECONDS [SEED]]"),
    });
    let (seconds, seed) = (args.next().unwrap_or(600), args.next().unwrap_or(1));
    end_at_a_panic();
    let before = Quiet::now();
    let (begin, whole) = (Instant::now(), Duration::from_secs(seconds));
    let turn = (whole / 80).clamp(Duration::from_millis(100), Duration::from_secs(1));
    let mut random = Random::new(seed);
    let mut memory = Memory::new(whole / 10);
    let mut children = children::Children::open(&mut random);
    let threads = Quiet::now().threads;
    let mut lives = 0;
    while begin.elapsed() < whole {
        let mut courses = COURSES.map(|(name, open)| (name, open(&mut random)));
        for _ in 0..TURNS {
            for (name, course) in &mut courses {
                take_turn(name, &mut **course, random.below(1 << 30) as u64, turn);
            }
            take_turn("children", &mut children, random.below(1 << 30) as u64, turn);
        }
        drop(courses);
        lives += 1;
        // A thread of the library that drops a process may still be at it.
        before_long(
            "only the threads of the pool of children are left",
            || (),
            || Quiet::now().threads == threads,
        );
        let quiet = Quiet::now();
        if is_verbose() {
            eprintln!("{quiet:?}");
        }
        memory.note(begin.elapsed(), quiet);
    }
    drop(children);
    report(begin.elapsed(), lives);
    memory.check();
    before_long("no thread is left", || (), || Quiet::now().threads == before.threads);
    assert_eq!(Quiet::now().files, before.files, "no file is left open");
    println!("nothing is lost, no thread and no file is left");
}

/// Whether each turn is printed before it begins, for a hang or an abort.
fn is_verbose() -> bool {
    std::env::var_os("CABRANK_SOAK_VERBOSE").is_some()
}

fn take_turn(name: &str, course: &mut dyn Course, seed: u64, turn: Duration) {
    if is_verbose() {
        eprintln!("{name}: seed {seed}");
    }
    course.work(seed, Instant::now() + turn);
    course.rest();
}

fn report(took: Duration, lives: u32) {
    let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
    println!("{} s, {lives} times {} pools and one of children:", took.as_secs(), COURSES.len());
    println!("  loans and sessions  {:>9}", of(&DONE.lent));
    println!("  refused or failed   {:>9}", of(&DONE.refused));
    println!("  cancelled waits     {:>9}", of(&DONE.cancelled));
    println!("  created or spawned  {:>9}", of(&DONE.created));
    println!("  crashed or broken   {:>9}", of(&DONE.crashed));
    println!("  changed limits      {:>9}", of(&DONE.resized));
}

/// Ends the run at a panic that no script asked for, on whatever thread.
fn end_at_a_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The in-memory spawner panics where its script says so. All other scripts resume an unwind, without this hook.
        if panic.location().is_some_and(|location| location.file().contains("in_memory")) {
            return;
        }
        usual(panic);
        std::process::exit(101);
    }));
}
