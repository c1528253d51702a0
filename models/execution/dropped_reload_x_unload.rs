//! A future whose reload fails is dropped while another owner asks to unload: it still waits, or that owner has its
//! turn.
//!
//! Guards two things in `Execution::unload_async`. It notes the failure before others have their turn; otherwise the
//! world is half reloaded without a report. It keeps `reloads_last` until it may unload, and sets it again while
//! others have their turn. Otherwise code that is loaded from then on is never unloaded.
//!
//! Asserted: whenever the future is dropped, the reporter gets the failure once, and the next execution makes up for
//! the reload. This thread ends the execution, or the other one if that lets the share in.
//!
//! The future begins to wait before the other owner asks: if it also entered beside it, loom would need more than a
//! minute.

use crate::execution::{ExecutionError, Reloader};
use crate::models::rig::*;
use crate::models::world::{World, execute};
use crate::sync::thread::JoinHandle;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

const WAYS: [&str; 3] = ["while it waits", "while the other has its turn", "too late"];

/// Polls `future` until it waits to unload, and once more beside another owner that asks to unload. Returns how the
/// future ends, and the other owner's thread.
fn dropped_beside_an_unload<T>(
    reloader: &Reloader,
    world: &World,
    mut future: Pin<Box<impl Future<Output = Result<T, ExecutionError>>>>,
) -> (usize, JoinHandle<()>) {
    let interlock = reloader.executor().interlock().expect("it has one");
    let (mut other, third) = (interlock.enter(), interlock.enter());
    assert!(poll_once(future.as_mut()).is_pending(), "two run");
    let other = spawn(move || other.unload(|_| ()).expect("no deadlock"));
    drop(third); // lets in the owners that have asked by now, in order
    let way = match poll_once(future.as_mut()) {
        Poll::Pending => usize::from(world.is_broken()),
        Poll::Ready(ended) => {
            assert!(ended.is_err(), "its reload fails on purpose");
            2
        }
    };
    (way, other)
}

/// An execution of a reloader that always reloads is reset, and goes on.
#[test]
fn dropped_reset_x_unload() {
    explore("dropped_reset_x_unload", &WAYS, |outcomes| {
        let (world, builder) = World::new(1);
        let reloader = builder.always().build().expect("valid");
        let mut execution = reloader.run().expect("nothing is due");
        world.fail_once();
        let reset = Box::pin(execution.reset_async());
        let (way, other) = dropped_beside_an_unload(&reloader, &world, reset);
        let joins = || other.join().expect("no panic");
        let ended = match way {
            0 => (execution.complete(), joins()).0, // The other owner waits for it.
            _ => (joins(), execution.complete()).1,
        };
        assert_eq!(ended.is_err(), way < 2, "its end returns the failure unless the reset did");
        assert_eq!((world.reported(), world.completed()), (1, 1));
        assert_eq!(world.unloads(), usize::from(way == 1), "its end unloads");
        outcomes.note(WAYS[way]);
    });
}

/// An execution of a reloader on change begins, and does not come to its body.
#[test]
fn dropped_run_x_unload() {
    explore("dropped_run_x_unload", &WAYS, |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        world.fail_once();
        let run = Box::pin(reloader.run_async());
        let (way, other) = dropped_beside_an_unload(&reloader, &world, run);
        other.join().expect("no panic");
        assert_eq!((world.reported(), world.completed()), (usize::from(way > 0), 1));
        assert_eq!(execute(&reloader, &world).is_err(), way == 0, "the reload is tried again");
        assert_eq!((world.reported(), world.unloads()), (1, usize::from(way > 0)));
        outcomes.note(WAYS[way]);
    });
}
