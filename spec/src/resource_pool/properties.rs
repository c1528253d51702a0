//! The properties of every step and of the end.

use crate::checking::promises::{liveness, step_properties};
use crate::resource_pool::action::{Action, kind};
use crate::resource_pool::invariants::{could_be_served, idle, present, takeable};
use crate::resource_pool::machine::Config;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Limit, ResourcePool, Slot, SlotId, Test, Waiter, WhenExhausted,
};

step_properties! {
    Config:
    "PROP-RP-NO-OVERTAKING" "a borrower is not served while an earlier waiter could use the resource, if the pool is fair"
        |_, before, _, after| {
            let served = served(before, after);
            let last = served.iter().map(|&(client, _)| ticket(before, client)).max()?;
            let mut passed = after.line.iter().filter(|waiter| waiter.ticket < last);
            (before.options.fair && passed.clone().next().is_some())
                .then(|| passed.all(|waiter| !could_use(after, waiter.key)))
        };
    "PROP-RP-FULL-KEY" "a borrower that can be served is served at once, regardless of waiters for other keys"
        |_, before, action, after| {
            let Action::Borrow { client, key, .. } = *action else { return None };
            let oldest = before.line.iter().find(|waiter| waiter.key == key);
            let waits = oldest.is_some_and(|waiter| before.goes_first(waiter));
            (could_be_served(before, key) && !waits)
                .then(|| !matches!(after.clients[client], At::Out | At::Waiting(_)))
        };
    "PROP-RP-WITHIN" "no count rises beyond its limit, nor while it exceeds a lowered limit"
        |_, before, _, after| {
            let grows = after.options.when_exhausted == WhenExhausted::Grow;
            let kept = |was: usize, is: usize, limit: Limit| is <= was || limit.allows(is);
            let of_key = |key: Key| {
                (grows || kept(before.active[key], after.active[key], after.limits.max_active))
                    && kept(before.total[key], after.total[key], after.limits.max_total_per_key)
                    && kept(idle(before, key), idle(after, key), after.limits.max_idle)
            };
            Some(kept(before.num_total(), after.num_total(), after.limits.max_total)
                && after.keys().all(of_key))
        };
    "PROP-RP-LOWERED" "after a limit was lowered, no idle resource is surplus, unless it is under test"
        |_, _, action, after| {
            let Action::Resize(_) = *action else { return None };
            let none = |key: Key| !after.idle_of(key).any(|idle| takeable(&idle));
            Some(after.keys().all(|key| {
                let in_stock = !after.surplus_of(key);
                none(key) || in_stock && !after.has_too_many(key)
            }))
        };
    "PROP-RP-IDLE-FIRST" "a borrower does not create while an idle resource of its key can be lent"
        |_, before, _, after| {
            let created: Vec<Key> = after.events.iter().filter_map(|event| match event {
                Event::Creates(client, ..) => key_of(after, *client),
                _ => None,
            }).collect();
            let had = |key: &Key| before.idle_of(*key).any(|idle| takeable(&idle));
            (!created.is_empty()).then(|| !created.iter().any(|key| {
                had(key) && after.idle_of(*key).any(|idle| takeable(&idle))
            }))
        };
    "PROP-RP-ORDER" "the newest idle resource of a key is lent, or the oldest if the pool is fifo"
        |_, before, _, after| each(taken(after).into_iter().map(|(client, id)| {
            let since = since(before, id);
            let mut stays = takeable_of(after, key_of(after, client));
            stays.all(|idle| if before.options.fifo { idle.since > since } else { idle.since < since })
        }));
    "PROP-RP-FIRST-BACK" "an idle resource goes to the oldest borrower of its key, whether it only waits or creates as well"
        |_, before, _, after| {
            let waited = taken(after).into_iter().filter(|&(client, _)| {
                matches!(before.clients[client], At::Waiting(_) | At::Creating { awaits: true, .. })
            });
            let came = |client: ClientId| match before.clients[client] {
                At::Waiting(_) => ticket(before, client),
                _ => before.tickets[client],
            };
            each(waited.map(|(client, _)| {
                (0..after.clients.len()).all(|other| match after.clients[other] {
                    At::Creating { slot, awaits: true, .. } => {
                        Some(slot.key) != key_of(after, client) || came(other) > came(client)
                    }
                    _ => true,
                })
            }))
        };
    "PROP-RP-SERVED-STAYS" "a creation whose borrower was served by another resource does not give way until it is overdue, nor does a refill"
        |_, before, action, after| {
            let created = |client: ClientId| match before.clients[client] {
                At::Creating { slot, .. } => Some(slot.id),
                _ => None,
            };
            let served = taken(after).into_iter().filter_map(|(client, _)| created(client));
            let stays_in_time = |slot: &&Slot| slot.left > 0 && !slot.given_up && !slot.overdue;
            let ends = |slot: &&Slot| match *action {
                Action::Overdue { at } | Action::Added { at } => before.adding[at].id == slot.id,
                _ => false,
            };
            let left = before.adding.iter().filter(stays_in_time).filter(|slot| !ends(slot));
            let gave_way = |id| after.leaving.iter().any(|slot| slot.id == id);
            let stays = |slot: &Slot| slot.left > 0 && !slot.given_up;
            let stay = served.map(|id| after.adding.iter().any(|slot| slot.id == id && stays(slot)));
            each(stay.chain(left.map(|slot| after.closed || !gave_way(slot.id))))
        };
    "PROP-RP-GIVES-WAY" "a borrower that waits for room makes an orphaned creation give way that is overdue, or else one that was given up, unless it is the only one"
        |_, before, action, after| {
            let key = match *action {
                Action::Borrow { client, key, waits: true } if after.clients[client] == At::Waiting(key) => key,
                Action::Overdue { at } => {
                    let Slot { key, .. } = before.adding[at];
                    before.line.iter().find(|waiter| waiter.key == key)?;
                    key
                }
                _ => return None,
            };
            let of_key = !before.limits.max_total_per_key.allows(before.total[key] + 1);
            let in_all = !before.limits.max_total.allows(before.num_total() + 1);
            let could = |slot: &&Slot| slot.left > 0 && (slot.key == key || !of_key);
            let needs = before.may_lend(key) && (of_key || in_all);
            let orphans = || before.adding.iter().filter(could);
            let overdue = |slot: &Slot| match *action {
                Action::Overdue { at } => before.adding[at].id == slot.id,
                _ => slot.overdue,
            };
            let in_time = || orphans().filter(|slot| !overdue(slot));
            let is_overdue = orphans().any(overdue);
            let given_up = in_time().count() > 1 && in_time().any(|slot| slot.given_up);
            (needs && (is_overdue || given_up)).then(|| {
                let left = before.adding.iter().filter(|slot| after.adding.iter().all(|other| other.id != slot.id));
                let mut left = left.peekable();
                left.peek().is_some() && left.all(|slot| overdue(slot) || !is_overdue)
            })
        };
    "PROP-RP-CALLED-FOR" "a called waiter finds an idle resource or a place"
        |_, _, _, after| each(after.events.iter().filter_map(|event| match event {
            Event::Called(client) => match after.clients[*client] {
                At::Called(Waiter { key, .. }) => Some(after.closed || could_use(after, key)
                    && (after.limits.max_total.allows(after.num_total() + 1)
                        || after.idle.iter().any(|idle| takeable(&idle)))),
                _ => None,
            },
            _ => None,
        }));
    "PROP-RP-BOUNDED-OVERTAKING" "if newcomers may barge: a newcomer does not overtake the oldest waiter of its key, if that has lost its races"
        |_, before, action, after| {
            let Action::Borrow { client, key, .. } = *action else { return None };
            let oldest = before.line.iter().find(|waiter| waiter.key == key)?;
            (!before.options.fair && oldest.lost >= before.options.races)
                .then(|| matches!(after.clients[client], At::Out | At::Waiting(_)))
        };
    "PROP-RP-FRESH" "an expired resource is not lent before its eviction, neither to a newcomer nor to a waiter that picks up its grant"
        |_, before, action, after| {
            let found = taken(after).into_iter().map(|(_, id)| {
                !before.idle.iter().any(|idle| idle.slot.id == id && idle.expired)
            });
            each(found.chain(picks_up(before, action, after).map(|slot| !slot.expired)))
        };
    "PROP-RP-VICTIM" "the eviction victim is an expired resource of the borrower's own key, or else the least recently used idle resource"
        |_, before, _, after| each(makes_room(after).into_iter().map(|(client, victim)| {
            let was = before.idle.iter().find(|idle| idle.slot.id == victim);
            if let Some(own) = was.filter(|idle| Some(idle.slot.key) == key_of(after, client)) {
                return own.expired;
            }
            let since = was.map(|idle| idle.since);
            after.idle.iter().filter(takeable).all(|idle| Some(idle.since) > since)
        }));
    "PROP-RP-KEEPS-PLACE" "a borrower whose resource fails keeps its place, and takes or creates another; so does one that picks up its grant"
        |_, before, action, after| {
            let client = match *action {
                Action::ActivateFails { client } => match before.clients[client] {
                    At::Activating { fresh: false, .. } => client,
                    _ => return None,
                },
                Action::PickUp { client } => client,
                _ => return None,
            };
            let goes_on = matches!(
                after.clients[client],
                At::Creating { .. } | At::Activating { .. } | At::Evicting { .. }
            );
            (!before.closed).then_some(goes_on)
        };
    "PROP-RP-LATE-GRANT" "a late grant is passed on: the resource goes to another waiter, or is idle again, if there is room"
        |_, before, action, after| {
            let Action::GiveUp { client } = *action else { return None };
            let At::Activating { slot, .. } = before.clients[client] else { return None };
            let passes = !before.closed && !slot.old && !slot.expired
                && !before.has_too_many(slot.key);
            let full = !after.limits.max_idle.allows(after.idle_of(slot.key).count() + 1);
            passes.then(|| full || after.leaving.iter().all(|leaves| leaves.id != slot.id))
        };
    "PROP-RP-NOTHING-LOST" "a resource disappears only when its owner destroys or detaches it"
        |_, before, action, after| {
            let there = present(after);
            let gone: Vec<SlotId> =
                present(before).into_iter().filter(|id| !there.contains(id)).collect();
            (!gone.is_empty()).then(|| gone.iter().all(|&id| may_go(before, action, id)))
        };
    "PROP-RP-CLEAR-ALL" "a resource that exists at clear_all leaves at once, or is too old to become idle again or to be lent at a pick-up"
        |_, before, action, after| {
            if let Some(slot) = picks_up(before, action, after) {
                return Some(!slot.old);
            }
            let Action::ClearAll = action else { return None };
            let mut slots = after.clients.iter().filter_map(At::slot).chain(&after.adding);
            let mut idle = after.idle.iter();
            Some(slots.all(|slot| slot.old) && idle.all(|idle| idle.test == Test::Doomed))
        };
    "PROP-RP-SPARED" "a spared eviction victim returns to its place in the idle list, unless the pool was cleared meanwhile"
        |_, before, action, after| {
            if matches!(action, Action::Clear | Action::ClearAll) {
                let granted = |at: &&At| matches!(at, At::Evicting { granted: true, .. });
                let victims = after.clients.iter().filter(granted).filter_map(At::victim);
                return each(victims.map(|victim| victim.slot.old));
            }
            let Action::GiveUp { client } = *action else { return None };
            let spared = before.clients[client].victim()?;
            let again = after.idle.iter().find(|idle| idle.slot.id == spared.slot.id)?;
            Some(again.since == spared.since)
        };
    "PROP-RP-CLOSED" "a closed pool serves no borrower"
        |_, before, _, after| before.closed.then(|| served(before, after).is_empty());
    "PROP-RP-UNDER-TEST" "a resource under test stays at its place until its test ends"
        |_, before, action, after| {
            let tested = before.idle.iter().enumerate().filter(|(at, idle)| {
                idle.test != Test::No && !matches!(action, Action::Tested { at: over, .. } if over == at)
            });
            each(tested.map(|(_, idle)| {
                after.idle.iter().any(|still| still.slot.id == idle.slot.id && still.test != Test::No)
            }))
        };
    "PROP-RP-MIN-IDLE" "a due resource is evicted softly only while more than min_idle are idle"
        |_, before, action, after| {
            let Action::Evict { at, hard: false } = *action else { return None };
            let Idle { slot, .. } = before.idle[at];
            let leaves = after.leaving.iter().any(|leaves| leaves.id == slot.id);
            leaves.then(|| before.num_idle_of(slot.key) > before.limits.min_idle)
        };
}

/// Returns whether all judgements are true, or `None` if there are none.
fn each(mut all: impl Iterator<Item = bool>) -> Option<bool> {
    let first = all.next()?;
    Some(first && all.all(|kept| kept))
}

/// Returns the borrowers that a step serves, and their resources.
fn served(before: &ResourcePool, after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let new = |client: ClientId| {
        matches!(before.clients[client], At::Out | At::Waiting(_) | At::Called(_))
    };
    let with = after.events.iter().filter_map(|event| match *event {
        Event::Takes(client, id) => Some((client, id)),
        Event::Creates(client, id, _) => Some((client, id)),
        _ => None,
    });
    with.filter(|&(client, _)| new(client)).collect()
}

fn takeable_of(s: &ResourcePool, key: Option<Key>) -> impl Iterator<Item = &Idle> {
    s.idle.iter().filter(takeable).filter(move |idle| Some(idle.slot.key) == key)
}

/// Returns the borrowers that took an idle resource in a step, and the resources.
fn taken(after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let with = after.events.iter().filter_map(|event| match *event {
        Event::Takes(client, id) => Some((client, id)),
        _ => None,
    });
    with.collect()
}

/// Returns the slot of a borrower after it picked up its grant.
fn picks_up(before: &ResourcePool, action: &Action, after: &ResourcePool) -> Option<Slot> {
    let Action::PickUp { client } = *action else { return None };
    after.clients[client].slot().copied().filter(|_| !before.closed)
}

/// Returns the borrowers that evict, and their victims.
fn makes_room(after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let victims = after.events.iter().filter_map(|event| match event {
        Event::Creates(client, _, Some(victim)) => Some((*client, *victim)),
        _ => None,
    });
    victims.collect()
}

fn key_of(s: &ResourcePool, client: ClientId) -> Option<Key> {
    s.clients[client].slot().map(|slot| slot.key)
}

/// Returns the ticket of a borrower. A newcomer, which is in no line, comes after all others.
fn ticket(before: &ResourcePool, client: ClientId) -> usize {
    let waiter = before.line.iter().find(|waiter| waiter.client == client);
    waiter.map_or(usize::MAX, |waiter| waiter.ticket)
}

/// Returns when a resource became idle. One that did so in the step itself comes after all others.
fn since(before: &ResourcePool, id: SlotId) -> usize {
    let idle = before.idle.iter().find(|idle| idle.slot.id == id);
    idle.map_or(usize::MAX, |idle| idle.since)
}

/// Returns whether a key's own limits leave room for one more. Then its waiter could use any freed resource or place.
fn could_use(s: &ResourcePool, key: Key) -> bool {
    let grows = s.options.when_exhausted == WhenExhausted::Grow;
    (grows || s.limits.max_active.allows(s.active[key] + 1))
        && (s.limits.max_total_per_key.allows(s.total[key] + 1)
            || s.idle_of(key).any(|idle| takeable(&idle)))
}

/// Returns whether the acting borrower destroys this resource, detaches it, or fails to create it.
fn may_go(before: &ResourcePool, action: &Action, id: SlotId) -> bool {
    let own = |client: ClientId| before.clients[client].slot().is_some_and(|slot| slot.id == id);
    match *action {
        Action::Detach { client }
        | Action::ActivateFails { client }
        | Action::CreateFails { client } => own(client),
        Action::VictimDestroyed { client } => {
            before.clients[client].victim().is_some_and(|victim| victim.slot.id == id)
        }
        Action::Cancel { client } => {
            own(client) && matches!(before.clients[client], At::Creating { .. })
        }
        Action::PickUp { client } | Action::GiveUp { client } => {
            own(client) && !matches!(before.clients[client], At::Activating { .. })
        }
        Action::AddFails { at } => before.adding[at].id == id,
        Action::Destroyed { at } => before.leaving[at].id == id,
        _ => false,
    }
}

const ALL: u64 = 1 << kind::OWN
    | 1 << kind::FAILS
    | 1 << kind::BORROW
    | 1 << kind::GIVE_UP
    | 1 << kind::OTHERS
    | 1 << kind::IDLE_FAILS;

liveness! {
    Config:
    "PROP-RP-EVERY-BORROW-ENDS" "every borrow ends, with a resource or an error"
        assumes "borrowed resources are returned or given up, and not all resources that become idle are broken for ever; other actions may go on and fail for ever"
        promised true; applies |config| config.options.fair;
        may ALL & !(1 << kind::IDLE_FAILS); fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-EVERY-DISCARD-ENDS" "a borrower that takes broken resources again and again eventually gets another"
        assumes "borrowed resources are returned or given up; other actions may go on and fail for ever"
        promised false; applies |_| true;
        may ALL; fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-EVERY-BARGING-BORROW-ENDS" "every borrow ends where newcomers may barge, also while they come for ever"
        assumes "as before; and other actions than borrowing eventually stop"
        promised true; applies |config| !config.options.fair;
        may ALL & !(1 << kind::IDLE_FAILS | 1 << kind::OTHERS); fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-REFILLED" "a known key eventually has min_idle idle resources, where there is room that no waiter needs"
        assumes "additions do not fail for ever; borrowers and other actions eventually stop"
        promised true; applies |_| true;
        may 1 << kind::OWN; fair |_| true;
        subjects |config| config.keys; not_yet |_, s, key| {
            let room = s.has_room_to_add(key) || s.adding_of(key) > 0;
            let few = s.num_idle_of(key) < s.limits.min_idle;
            !s.closed && s.is_kept(key) && few && room && !s.keys().any(|key| s.is_eligible(key))
        };
    "PROP-RP-EVICTED" "a due resource leaves or is lent while more than min_idle are idle"
        assumes "tests end; additions and other actions eventually stop"
        promised true; applies |_| true;
        may 1 << kind::OWN | 1 << kind::FAILS | 1 << kind::IDLE_FAILS; fair |_| true;
        subjects |config| config.keys; not_yet |_, s, key| {
            let spare = s.num_idle_of(key) > s.limits.min_idle;
            s.idle_of(key).any(|idle| idle.due && spare)
        };
    "PROP-RP-CLOSE-ENDS" "a closed pool is eventually empty"
        assumes "borrowed resources are returned, and operations end; borrowers may go on asking"
        promised true; applies |_| true;
        may ALL; fair |_| true;
        subjects |config| config.keys; not_yet |_, s, key| s.closed && s.total[key] > 0;
}

fn borrows(_: &Config, s: &ResourcePool, client: usize) -> bool {
    !matches!(s.clients[client], At::Out | At::Lent(_))
}
