//! Keys: limits of each key and of all keys, eviction for another key, and when the pool forgets a
//! key.

use crate::common::{Keyed, Outcome, Rig, keyed, locked};
use crate::shared::SECOND;
use crate::shared::task::Task;
use cabrank::resource_pool::{
    AddError, BorrowError, Borrowed, KeyedResourcePool, ResourceFactory, ResourceState,
};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A key without any resource has no idle list to keep up.
#[test]
fn a_refused_key_is_forgotten_though_there_is_a_minimum() {
    let rig = keyed(|b| b.min_idle(1).max_total(1));
    let a = rig.lend("a");
    assert_eq!(rig.pool.try_borrow(&"b").unwrap_err(), BorrowError::WouldBlock);
    assert_eq!(rig.pool.num_keys(), 1);
    drop(a);
}

/// An idle resource expires while its key is full: the key leaves the line, and other keys pass.
#[test]
fn an_expired_resource_keeps_no_other_key_waiting() {
    let rig =
        keyed(|b| b.max_active(1).max_total_per_key(2).max_total(3).max_idle_time(10 * SECOND));
    let (a, b) = (rig.lend("a"), rig.lend("b"));
    rig.pool.add(&"a").expect("room");
    rig.clock.advance(10 * SECOND);
    let (waits_a, waits_b) = (rig.queue("a"), rig.queue("b"));
    Borrowed::invalidate(a);
    drop(waits_a.end().expect("a new one"));
    drop(b);
    drop(waits_b.end().expect("it came back"));
    assert_eq!(rig.pool.num_active(), 0);
}

/// In an unfair pool, a newcomer takes the place for which its key's oldest waiter is in line.
#[test]
fn a_newcomer_that_barges_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_active(1).max_total(1));
    let a = rig.lend("a");
    let (waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    drop(a);
    // The pool has woken b, which does not retry yet.
    let newcomer = rig.lend("a");
    for mut task in [waits_b, waits_a] {
        assert!(task.poll().is_none());
    }
    drop(newcomer);
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}

/// The same, where the maintenance evicts it.
#[test]
fn an_eviction_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_total(2).max_total_per_key(1).max_idle_time(5 * SECOND));
    let (a, other) = (rig.lend("a"), rig.lend("c"));
    let (waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    drop(a);
    rig.clock.advance(5 * SECOND);
    rig.pool.maintain();
    for task in [waits_b, waits_a] {
        drop(task);
    }
    drop(other);
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}

/// The same, where one is added.
#[test]
fn an_addition_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_total(2).max_total_per_key(1));
    let (c, d) = (rig.lend("c"), rig.lend("d"));
    let (mut waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    Borrowed::invalidate(c);
    rig.pool.add(&"a").expect("its place is free");
    // The woken b retries, and takes the place of the idle one.
    let b = waits_b.poll().expect("woken").expect("room");
    assert_eq!(rig.pool.num_idle(), 0);
    drop((waits_a, b, d));
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}

/// PROP-RP-WITHIN. Without the limit of all keys more could exist than intended (defect `elixir-unbounded-total`).
#[test]
fn each_key_has_its_own_limits_and_all_have_one() {
    let rig = keyed(|b| b.max_active(2).max_idle(1).max_total(3));
    let a = [rig.lend("a"), rig.lend("a")];
    assert_eq!(rig.pool.try_borrow(&"a").unwrap_err(), BorrowError::WouldBlock);
    let b = rig.lend("b");
    assert_eq!((a[0].key, b.key), ("a", "b"));
    assert_eq!(rig.pool.try_borrow(&"b").unwrap_err(), BorrowError::WouldBlock, "the total");
    assert_eq!((rig.pool.num_active_of(&"a"), rig.pool.num_active_of(&"b")), (2, 1));
    drop((a, b));
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (1, 1));
    assert_eq!((rig.pool.num_active_of(&"z"), rig.pool.num_idle_of(&"z")), (0, 0));
    assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 2), 2));
}

/// The victim is the least recently used idle resource of any key. It is destroyed before its
/// successor is created, so the limit holds throughout (PROP-RP-VICTIM).
#[test]
fn the_least_recently_used_is_the_victim() {
    let rig = keyed(|b| b.max_total(3));
    for key in ["a", "b", "a2"] {
        drop(rig.lend(key));
    }
    drop(rig.lend("a"));
    rig.script.calls();
    let c = rig.lend("c");
    assert_eq!(rig.script.calls(), "destroy 2 create activate 4");
    let d = rig.lend("d");
    assert_eq!(rig.script.calls(), "destroy 3 create activate 5");
    assert_eq!((rig.script.most_alive(), rig.pool.num_idle_of(&"a")), (3, 1));
    drop((c, d));
}

/// A victim counts for its own key until it is destroyed, for borrowers, additions and refills alike
/// (INV-RP-MAX-TOTAL-PER-KEY).
#[test]
fn a_victim_counts_for_its_key_until_it_is_destroyed() {
    let rig = keyed(|b| b.max_total(2).max_total_per_key(1));
    drop(rig.lend("a"));
    drop(rig.lend("b"));
    let (pool, asked) = (rig.pool.clone(), Arc::new(Mutex::new(None)));
    let answer = asked.clone();
    rig.script.on("destroy", move |_| {
        let refused = pool.try_borrow(&"a").map(drop);
        *locked(&answer) = Some((refused, pool.num_total(), pool.snapshot().keys[0].total));
        Outcome::Well
    });
    let c = rig.lend("c");
    let asked = locked(&asked).take().expect("it was destroyed");
    assert_eq!(asked, (Err(BorrowError::WouldBlock), 2, 1));
    rig.script.is_well("destroy");
    // Then the key has room again, in the place of b.
    let a = rig.lend("a");
    assert_eq!((a.number, rig.counts(), rig.script.alive()), (4, (2, 0), 2));
    assert_eq!((rig.script.most_alive_of("a"), rig.script.most_alive()), (1, 2));
    drop((a, c));
}

#[test]
fn no_addition_in_a_place_that_its_key_still_has() {
    let rig = keyed(|b| b.max_total(3).max_total_per_key(2).min_idle(1));
    let (a, b) = (rig.lend("a"), rig.lend("b"));
    rig.pool.add(&"a").expect("room");
    let (pool, b) = (rig.pool.clone(), Mutex::new(Some(b)));
    let added = Arc::new(Mutex::new(None));
    let answer = added.clone();
    rig.script.on("destroy", move |number| {
        if number == 3 {
            // The pool has room, but the key does not.
            drop(locked(&b).take().map(Borrowed::detach));
            *locked(&answer) = Some(pool.add(&"a"));
            pool.maintain();
        }
        Outcome::Well
    });
    let c = rig.lend("c");
    assert_eq!(*locked(&added), Some(Err(AddError::Full)));
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.script.most_alive_of("a")), (0, 2));
    // After the destruction the key is refilled.
    rig.pool.maintain();
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.script.most_alive_of("a")), (1, 2));
    drop((a, c));
}

/// The key is full only because of a victim. Its waiter is served once the victim is destroyed or
/// spared.
#[test]
fn a_waiter_for_the_end_of_a_victim_is_served() {
    let rig = keyed(|b| b.max_total(2).max_total_per_key(1));
    drop(rig.lend("a"));
    drop(rig.lend("b"));
    let (pool, waits) = (rig.pool.clone(), Arc::new(Mutex::new(None)));
    let waiting = waits.clone();
    rig.script.on("destroy", move |number| {
        if number == 1 {
            let pool = pool.clone();
            let mut task = Task::new(async move { pool.borrow_async(&"a").await.map(drop) });
            assert_eq!(task.poll(), None, "the key is full");
            assert!(locked(&waiting).replace(task).is_none());
        }
        Outcome::Well
    });
    let c = rig.lend("c");
    let mut task = locked(&waits).take().expect("it was destroyed");
    assert_eq!((task.wakes(), task.poll()), (1, Some(Ok(()))));
    assert_eq!((rig.script.most_alive_of("a"), rig.script.made()), (1, 4));
    drop(c);

    // A place granted in its stead is given back.
    let rig = keyed(|b| b.max_total(2).max_total_per_key(1));
    let (a, b) = (rig.lend("a"), rig.lend("b"));
    let granted = rig.task("c");
    drop(a);
    let mut waits = rig.task("a");
    assert_eq!((granted.wakes(), waits.wakes(), rig.counts()), (1, 0, (2, 0)));
    drop(granted);
    assert_eq!(waits.poll().expect("woken").expect("it stays after all").number, 1);
    drop(b);
}

/// A failed destruction frees the place too.
#[test]
fn a_victim_frees_its_place_though_its_destruction_panics() {
    let rig = keyed(|b| b.max_total(2).max_total_per_key(1));
    drop(rig.lend("a"));
    drop(rig.lend("b"));
    rig.script.panics("destroy");
    let c = rig.lend("c");
    rig.script.is_well("destroy");
    assert!(rig.events()[0].starts_with("a: DestroyPanicked"));
    drop((rig.lend("a"), c));
    assert_eq!((rig.script.most_alive_of("a"), rig.script.most_alive()), (1, 2));
}

/// An expired resource of the same key is the first victim, whichever limit is reached.
#[test]
fn an_expired_resource_is_the_victim_of_its_own_key() {
    let rig = keyed(|b| b.max_total(3).max_total_per_key(1).max_idle_time(SECOND));
    drop(rig.lend("a"));
    rig.clock.advance(2 * SECOND);
    assert_eq!(rig.pool.try_borrow(&"a").expect("its place").number, 2);

    let rig = keyed(|b| b.max_total(2).max_idle_time(2 * SECOND));
    drop(rig.lend("other"));
    drop(rig.lend("a"));
    rig.clock.advance(SECOND);
    drop(rig.lend("other"));
    rig.clock.advance(SECOND);
    rig.script.calls();
    assert_eq!(rig.pool.try_borrow(&"a").expect("its place").number, 3);
    assert_eq!(rig.script.calls(), "destroy 2 create activate 3 passivate 3");
    assert_eq!((rig.pool.num_idle_of(&"other"), rig.script.most_alive()), (1, 2));
}

/// The successor's lifetime begins after the victim's destruction, however long that takes.
#[test]
fn a_victims_destruction_does_not_shorten_the_next_lifetime() {
    let rig = keyed(|b| b.max_total(1).max_lifetime(10 * SECOND));
    let clock = rig.clock.clone();
    rig.script.on("destroy", move |_| {
        clock.advance(9 * SECOND);
        Outcome::Well
    });
    drop(rig.lend("a"));
    drop(rig.lend("b"));
    let of_b = &rig.pool.snapshot().keys[0].resources[0];
    assert_eq!((of_b.id, of_b.age), (2, Some(Duration::ZERO)));
    rig.clock.advance(9 * SECOND);
    assert_eq!(rig.lend("b").number, 2);
}

/// A borrower takes an idle resource of its key first, then room, then a victim
/// (PROP-RP-IDLE-FIRST).
#[test]
fn no_victim_where_there_is_room_or_an_idle_resource() {
    let rig = keyed(|b| b.max_total(2));
    drop(rig.lend("a"));
    drop(rig.lend("b"));
    drop(rig.lend("a"));
    assert_eq!((rig.script.made(), rig.counts()), (2, (0, 2)));
    let two = [rig.lend("a"), rig.lend("b")];
    let mut waits = rig.task("c");
    drop(two);
    drop(waits.poll().expect("a place").expect("one"));
    assert_eq!(rig.script.most_alive(), 2);
}

/// A creation fails in a victim's place: the next borrower gets the place.
#[test]
fn a_failure_in_a_victims_place_leaves_it_free() {
    let rig = keyed(|b| b.max_total(1));
    drop(rig.lend("a"));
    rig.script.fails("create");
    assert!(matches!(rig.pool.borrow(&"b"), Err(BorrowError::Create(_))));
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.pool.num_keys()), ((0, 0), 0, 0));
    rig.script.is_well("create");
    drop(rig.lend("b"));
}

/// Waiters of a key at its own limit keep no other key waiting, though they came first
/// (PROP-RP-FULL-KEY).
#[test]
fn a_full_key_blocks_no_other_key() {
    let rig = keyed(|b| b.max_active(1).max_total(3));
    let (a, b, c) = (rig.lend("a"), rig.lend("b"), rig.lend("c"));
    let mut first = rig.task("a");
    let mut second = rig.task("d");
    drop(b);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    let d = second.poll().expect("woken").expect("the place of b");
    assert!(first.poll().is_none());
    drop(a);
    drop(first.poll().expect("woken").expect("its own"));
    drop((c, d));
    assert_eq!((rig.pool.num_active(), rig.script.most_alive()), (0, 3));
}

/// The same for the limit on existing resources.
#[test]
fn max_total_per_key_blocks_its_key_only() {
    let rig = keyed(|b| b.max_total_per_key(1));
    let a = rig.lend("a");
    let mut waits = rig.task("a");
    drop(rig.lend("b"));
    assert!(waits.poll().is_none());
    rig.pool.set_max_total_per_key(2).expect("valid");
    assert_eq!(waits.poll().expect("woken").expect("room").number, 3);
    drop(a);
    assert_eq!(rig.pool.num_idle_of(&"a"), 2);
    rig.pool.set_max_total_per_key(1).expect("valid");
    assert_eq!(rig.pool.num_idle_of(&"a"), 1);
}

/// A free place or resource goes to the oldest waiter of any key that can use it.
/// PROP-RP-NO-OVERTAKING.
#[test]
fn the_oldest_waiter_of_all_keys_is_served_first() {
    let rig = keyed(|b| b.max_total(2));
    let held = [rig.lend("x"), rig.lend("y")];
    let mut tasks = ["c", "a", "b", "a", "c"].map(|key| rig.task(key));
    let mut held = Vec::from(held);
    let mut order = Vec::new();
    while order.len() < tasks.len() {
        drop(held.remove(0));
        let woken = (0..5).find(|at| tasks[*at].wakes() > 0 && !order.contains(at));
        let at = woken.expect("one of them is served");
        held.push(tasks[at].poll().expect("woken").expect("one"));
        order.push(at);
    }
    assert_eq!(order, [0, 1, 2, 3, 4]);
    assert_eq!(rig.script.most_alive(), 2);
}

/// A dropped waiter passes its grant on, to whatever key (PROP-RP-LATE-GRANT; defect `elixir-late-grant`).
#[test]
fn a_grant_is_passed_on_to_another_key() {
    let rig = keyed(|b| b.max_total(1));
    let a = rig.lend("a");
    let (first, mut second) = (rig.task("b"), rig.task("c"));
    Borrowed::invalidate(a);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.poll().expect("woken").expect("the place").key, "c");
}

#[test]
fn a_key_without_resources_and_waiters_is_forgotten() {
    let rig = keyed(|b| b);
    for key in ["a", "b", "c"] {
        drop(rig.lend(key));
    }
    assert_eq!(rig.pool.num_keys(), 3);
    rig.pool.clear_key(&"a");
    rig.pool.clear_key(&"never seen");
    assert_eq!((rig.pool.num_keys(), rig.counts()), (2, (0, 2)));
    let lent = rig.lend("b");
    rig.pool.clear();
    assert_eq!(rig.pool.num_keys(), 1);
    Borrowed::invalidate(lent);
    rig.script.fails("create");
    assert!(rig.pool.borrow(&"d").is_err());
    assert_eq!((rig.pool.num_keys(), rig.pool.num_total()), (0, 0));
    rig.script.is_well("create");
    // A waiter keeps its key.
    let full = keyed(|b| b.max_total(1));
    let lent = full.lend("a");
    let waits = full.task("b");
    assert_eq!((full.pool.num_keys(), full.pool.num_waiting_of(&"b")), (2, 1));
    drop(waits);
    assert_eq!((full.pool.num_keys(), full.pool.num_waiting_of(&"b")), (1, 0));
    drop(lent);
}

#[test]
fn resources_are_added_by_key() {
    let rig = keyed(|b| b.max_idle(2).max_total(3));
    rig.pool.prefill(&"a", 2).expect("room");
    assert_eq!(rig.pool.add(&"a"), Err(AddError::Full), "max_idle");
    rig.pool.add(&"b").expect("room");
    assert_eq!(
        rig.pool.add(&"b"),
        Err(AddError::Full),
        "max_total: an addition evicts no resource"
    );
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (2, 1));
}

/// The snapshot is plain data, with each key.
#[test]
fn the_snapshot_can_be_written() {
    let rig = keyed(|b| b.max_lifetime(60 * SECOND));
    let _lent = rig.lend("a");
    rig.pool.add(&"b").expect("there is room");
    rig.clock.advance(SECOND);
    let data = serde_json::to_value(rig.pool.snapshot()).expect("it is plain data");
    let second = serde_json::json!({ "secs": 1, "nanos": 0 });
    let resource = |id: u64, state: &str| serde_json::json!({ "id": id, "state": state, "age": second, "since": second });
    let expected = serde_json::json!({
        "closed": false, "total": 2, "active": 1, "idle": 1, "waiting": 0,
        "keys": [
            { "key": "a", "total": 1, "active": 1, "waiting": 0, "resources": [resource(1, "lent")] },
            { "key": "b", "total": 1, "active": 0, "waiting": 0, "resources": [resource(2, "idle")] },
        ],
    });
    assert_eq!(data, expected);
    let without = crate::common::pool(|b| b);
    let data = serde_json::to_value(without.pool.snapshot()).expect("it is plain data");
    assert_eq!(data["keys"][0]["key"], serde_json::Value::Null);
}

#[test]
fn the_snapshot_has_every_key() {
    let rig = keyed(|b| b.max_active(1).max_idle_time(SECOND * 9));
    let lent = rig.lend("a");
    drop(rig.lend("b"));
    let waits = rig.task("a");
    rig.clock.advance(SECOND);
    let picture = rig.pool.snapshot();
    assert_eq!((picture.total, picture.active, picture.idle, picture.waiting), (2, 1, 1, 1));
    let keys: Vec<_> = picture.keys.iter().map(|key| (key.key().copied(), key.waiting)).collect();
    assert_eq!(keys, [(Some("a"), 1), (Some("b"), 0)]);
    let [of_a, of_b] = [0, 1].map(|at| &picture.keys[at].resources[0]);
    assert_eq!((of_a.id, of_a.state, of_a.age), (1, ResourceState::Lent, Some(SECOND)));
    assert_eq!((of_b.id, of_b.state, of_b.since), (2, ResourceState::Idle, Some(SECOND)));
    assert!(!picture.closed && format!("{picture:?}").contains("waiting: 1"));
    drop((lent, waits));
}

/// Keys whose hashes are all equal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Colliding(u8);

impl Hash for Colliding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u8.hash(state);
    }
}

struct Numbers;
impl ResourceFactory for Numbers {
    type Resource = u8;
    type Metadata = Colliding;
    type Error = std::convert::Infallible;
    fn create(&self, key: &Colliding) -> Result<u8, std::convert::Infallible> {
        Ok(key.0)
    }
}

#[test]
fn keys_of_the_same_hash_are_distinguished() {
    let pool = KeyedResourcePool::builder(Numbers).max_active(2).build().expect("valid");
    for key in (0..9).chain((0..9).rev()) {
        assert_eq!(*pool.borrow(&Colliding(key)).expect("room"), key);
    }
    assert_eq!((pool.num_keys(), pool.num_idle()), (9, 9));
    // The pool forgets some keys while threads look others up.
    std::thread::scope(|scope| {
        for worker in 0..3_u8 {
            let pool = &pool;
            scope.spawn(move || {
                for step in 0..200_u8 {
                    let key = Colliding(step.wrapping_mul(worker + 1) % 9);
                    let lent = pool.borrow(&key).expect("in the end");
                    assert_eq!(*lent, key.0);
                    if step % 3 == 0 {
                        Borrowed::invalidate(lent);
                    } else {
                        drop(lent);
                    }
                    pool.clear_key(&Colliding(step % 9));
                }
            });
        }
    });
    pool.clear();
    assert_eq!((pool.num_keys(), pool.num_total(), pool.num_active()), (0, 0, 0));
}

/// A waiter does not pick up a place that was granted with its victim. In each case
/// both the grant and the victim come to their end.
#[test]
fn a_grant_with_a_victim_ends_in_every_way() {
    let meanwhile: [fn(&Rig<Keyed>); 5] = [
        |_| (),
        |rig| rig.pool.close(),
        |rig| rig.pool.clear_all(),
        |rig| rig.pool.clear(),
        |rig| {
            rig.clock.advance(SECOND);
            rig.pool.maintain();
        },
    ];
    for (nth, happens) in meanwhile.into_iter().enumerate() {
        for picked_up in [false, true] {
            let rig = keyed(|b| {
                let b = b.max_total(1).max_total_per_key(1);
                b.abandoned_after(SECOND).remove_abandoned(true)
            });
            let a = rig.lend("a");
            let mut task = rig.task("b");
            drop(a);
            happens(&rig);
            if picked_up && rig.pool.is_closed() {
                let reported = task.poll().expect("the grant").map(drop);
                assert_eq!((reported, rig.script.made()), (Err(BorrowError::Closed), 1), "{nth}");
            } else if picked_up {
                let lent = task.poll().expect("it was granted").expect("created in its place");
                assert_eq!((lent.number, rig.script.alive()), (2, 1), "{nth}");
            }
            drop(task);
            // The victim is spared, unless all was cleared or closed meanwhile; a resource created
            // later is idle.
            let idle = rig.pool.num_idle();
            let stays = [true, false, picked_up, picked_up, true][nth];
            assert_eq!(idle, usize::from(stays), "{nth}");
            assert_eq!((rig.pool.num_active(), rig.pool.num_total()), (0, idle), "{nth}");
            assert_eq!(rig.script.alive(), idle, "{nth}");
            // The victim's key has its place again.
            assert_eq!(rig.pool.try_borrow(&"a").is_ok(), !rig.pool.is_closed(), "{nth}");
            rig.pool.close();
            assert!(rig.pool.wait_closed(std::time::Duration::ZERO));
            assert_eq!((rig.script.alive(), rig.pool.num_keys()), (0, 0), "{nth}");
        }
    }
}

/// A spared victim keeps its age (PROP-RP-SPARED): an earlier version moved it to the newest end. It
/// leaves if its key was cleared meanwhile.
#[test]
fn a_spared_victim_stays_in_its_place() {
    for clears in [false, true] {
        let rig = keyed(|b| b.max_total(3).max_idle_time(10 * SECOND));
        let [a, b, c] = ["a", "b", "c"].map(|key| rig.lend(key));
        let task = rig.task("d");
        drop(a);
        assert_eq!((task.wakes(), rig.pool.num_idle_of(&"a")), (1, 0));
        rig.clock.advance(SECOND);
        drop(b);
        if clears {
            rig.pool.clear_key(&"a");
        }
        drop(task);
        assert_eq!(rig.pool.num_idle_of(&"a"), usize::from(!clears));
        if !clears {
            assert_eq!(rig.due(), Some(9 * SECOND), "since it came back");
            drop(rig.lend("e"));
            assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (0, 1));
        }
        drop(c);
        assert_eq!(rig.script.alive(), rig.pool.num_total());
    }
}

/// A clear from before the victim lost its place does not count.
#[test]
fn a_spared_victim_stays_though_its_key_was_cleared_before() {
    let rig = keyed(|b| b.max_total(1));
    let a = rig.lend("a");
    rig.pool.clear_key(&"a"); // nothing is idle
    let task = rig.task("b");
    drop(a);
    assert_eq!((task.wakes(), rig.pool.num_idle_of(&"a")), (1, 0), "it is the victim");
    drop(task);
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.script.alive()), (1, 1));
}
