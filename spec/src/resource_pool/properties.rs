//! The properties of every step and of the end.

use crate::checking::promises::{liveness, step_properties};
use crate::resource_pool::action::{Action, kind};
use crate::resource_pool::invariants::{could_be_served, idle, present, takeable};
use crate::resource_pool::machine::Config;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Limit, Refusal, ResourcePool, Slot, SlotId, Test, Waiter,
    WhenExhausted,
};

step_properties! {
    Config:
    "PROP-RP-NO-OVERTAKING" "a borrower is not served while an earlier waiter could use the resource, if the pool is fair"
        |_, before, _, after| {
            let served = served(before, after);
            let last = served.iter().map(|&(client, _)| ticket(before, client)).max()?;
            let mut passed = after.line.iter().filter(|waiter| waiter.ticket < last);
            (before.options.fair && passed.clone().next().is_some())
                .then(|| passed.all(|waiter| !could_use(after, waiter)))
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
    "PROP-RP-ORDERED" "where the pool creates, a key has as many creations in flight that are not overdue as waiters that max_active admits, or it has no place: no free one, no idle resource of another key, no overdue creation that gives way; none is ordered beyond these waiters and what the minimum lacks"
        |_, before, action, after| {
            if !after.creates || after.closed {
                return None;
            }
            let enough = after.keys().all(|key| {
                let has_place = after.room() > 0 || has_victim(after, key) || gives_way(after, None);
                let could = if is_full(after, key) { gives_way(after, Some(key)) } else { has_place };
                in_flight(after, key) >= after.lendable(key)
                    || after.drops()
                    || !could
                    || creates_enough(after)
            });
            let few = ordered(after).into_iter().all(|id| {
                let Some(slot) = after.adding.iter().find(|slot| slot.id == id) else { return true };
                let refills = matches!(action, Action::Refill { .. });
                let orders = after.adding.iter().filter(|other| other.key == slot.key && other.ordered > 0);
                let loans = after.active[slot.key] + orders.count();
                let spare = in_flight(after, slot.key).saturating_sub(after.lendable(slot.key));
                let bounded = refills || after.grows() || after.limits.max_active.allows(loans);
                let lacked = if refills { before.lacks(slot.key) } else { 0 };
                spare <= lacked && bounded
            });
            Some(enough && few)
        };
    "PROP-RP-NEXT-ORDER" "in a fair pool a creation is ordered for the oldest waiter without one, of all keys with a place"
        |_, _, action, after| {
            if !after.options.fair {
                return None; // Waiters that lost a race and wait again count as the first of their key.
            }
            let new = ordered(after).into_iter().filter(|_| !matches!(action, Action::Refill { .. }));
            let last = new.filter_map(|id| after.adding.iter().find(|slot| slot.id == id)).next_back()?;
            let line = |key: Key| after.line.iter().filter(move |waiter| waiter.key == key);
            let ahead = in_flight(after, last.key).checked_sub(1)?;
            let of = line(last.key).nth(ahead)?;
            let without = |key: Key| {
                let could = !is_full(after, key) && in_flight(after, key) < after.lendable(key);
                line(key).nth(in_flight(after, key)).filter(|_| could)
            };
            Some(after.keys().filter_map(without).all(|waiter| waiter.ticket > of.ticket))
        };
    "PROP-RP-DROPPED" "a creation in flight is dropped only by close or clear_all; or when it is overdue, the line needs its place, and no borrower is left that waited when it was ordered"
        |_, before, action, after| each(before.adding.iter().filter(|slot| {
            slot.ordered > 0 && after.leaving.iter().any(|left| left.id == slot.id && left.dropped)
        }).map(|slot| {
            let overdue = match *action {
                Action::Close | Action::ClearAll => return true,
                Action::Overdue { at } => before.adding[at].id == slot.id || slot.overdue,
                _ => slot.overdue,
            };
            let awaited = after.line.iter().any(|w| w.key == slot.key && w.ticket < slot.ordered);
            overdue && !awaited && !after.line.is_empty()
        }));
    "PROP-RP-FAILURE" "a failed creation is the error of the oldest borrower of its key, if that waited when it was ordered, and of no other"
        |_, before, action, after| {
            let Action::AddFails { at } = *action else { return None };
            let slot = before.adding[at];
            let oldest = before.line.iter().find(|waiter| waiter.key == slot.key);
            let is_order = before.creates && slot.ordered > 0;
            let awaited = oldest.filter(|waiter| is_order && waiter.ticket < slot.ordered);
            let failed = after.events.iter().filter_map(|event| match event {
                Event::Refused(client, Refusal::Failed) => Some(*client),
                _ => None,
            });
            Some(failed.eq(awaited.map(|waiter| waiter.client)))
        };
    "PROP-RP-FIRST-USE" "a borrower that is granted a new resource gets the failure of its activation"
        |_, before, action, after| {
            let Action::ActivateFails { client } = *action else { return None };
            matches!(before.clients[client], At::Activating { fresh: true, .. })
                .then(|| after.clients[client] == At::Out)
        };
    "PROP-RP-CALLED-FOR" "a called waiter finds an idle resource or a place"
        |_, _, _, after| each(after.events.iter().filter_map(|event| match event {
            Event::Called(client) => match after.clients[*client] {
                At::Called(_) if after.creates => None,
                At::Called(Waiter { key, .. }) => Some(after.closed || has_room(after, key)
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
    "PROP-RP-KEEPS-PLACE" "a borrower whose resource fails keeps its place: it takes or creates another, or waits ahead of all that came after it; so does one that picks up its grant"
        |_, before, action, after| {
            let client = match *action {
                Action::ActivateFails { client } => match before.clients[client] {
                    At::Activating { fresh: false, .. } => client,
                    _ => return None,
                },
                Action::PickUp { client } => client,
                _ => return None,
            };
            let goes_on = match after.clients[client] {
                At::Creating { .. } | At::Activating { .. } | At::Evicting { .. } => true,
                // Where the pool creates, its place in line is by the time of its arrival.
                At::Waiting(key) => {
                    let of_key = after.line.iter().filter(|waiter| waiter.key == key);
                    let mut ahead = of_key.take_while(|waiter| waiter.client != client);
                    after.creates && ahead.all(|waiter| waiter.ticket < before.tickets[client])
                }
                _ => false,
            };
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
    "PROP-RP-CLEAR-ALL" "a resource that exists at clear_all leaves at once, as does a creation that the pool ordered, or is too old to become idle again or to be lent at a pick-up"
        |_, before, action, after| {
            if let Some(slot) = picks_up(before, action, after) {
                return Some(!slot.old);
            }
            let Action::ClearAll = action else { return None };
            let slots = after.clients.iter().filter_map(At::slot).chain(&after.adding);
            let mut existed = slots.filter(|slot| slot.id <= before.made);
            let mut idle = after.idle.iter();
            Some(existed.all(|slot| slot.old && slot.ordered == 0) && idle.all(|idle| idle.test == Test::Doomed))
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

/// Returns whether a waiter could use a resource or place that became free. Where the pool creates, one that has a
/// creation in flight needs no other.
fn could_use(s: &ResourcePool, waiter: &Waiter) -> bool {
    let key = waiter.key;
    let mut of_key = s.line.iter().filter(|other| other.key == key);
    let ahead = of_key.position(|other| other.client == waiter.client).unwrap_or(0);
    let needs_none =
        s.creates && (ahead < in_flight(s, key) || is_full(s, key) || creates_enough(s));
    if needs_none { could_be_served(s, key) } else { has_room(s, key) }
}

/// Returns the creations that were ordered in a step.
fn ordered(after: &ResourcePool) -> Vec<SlotId> {
    let with = after.events.iter().filter_map(|event| match *event {
        Event::Orders(id, _) => Some(id),
        _ => None,
    });
    with.collect()
}

/// Returns whether an idle resource of another key could be evicted. Called waiters have their resources first.
fn has_victim(s: &ResourcePool, key: Key) -> bool {
    let oldest = s.idle.iter().find(takeable);
    s.called(|_| true) == 0 && oldest.is_some_and(|idle| idle.slot.key != key)
}

/// Returns the creations of a key that the pool ordered and that are in flight, overdue or not.
fn orders(s: &ResourcePool, key: Key, overdue: bool) -> impl Iterator<Item = &Slot> {
    let all = s.adding.iter().filter(|slot| slot.ordered > 0);
    all.filter(move |slot| slot.key == key && slot.overdue == overdue)
}

/// Returns whether `max_creating` creations are in flight.
fn creates_enough(s: &ResourcePool) -> bool {
    let all = s.keys().map(|key| in_flight(s, key)).sum::<usize>();
    !s.options.max_creating.allows(all + 1)
}

fn in_flight(s: &ResourcePool, key: Key) -> usize {
    orders(s, key, false).count()
}

/// Returns whether the key's own limits allow no other creation.
fn is_full(s: &ResourcePool, key: Key) -> bool {
    let overdue = orders(s, key, true).count();
    let loans = if s.grows() { overdue } else { s.active[key] + in_flight(s, key) + overdue };
    !s.limits.max_total_per_key.allows(s.total[key] + 1) || !s.limits.max_active.allows(loans + 1)
}

/// Returns whether an overdue creation could be dropped, of this key or of any: no borrower is left that waited when it
/// was ordered.
fn gives_way(s: &ResourcePool, key: Option<Key>) -> bool {
    let of_keys = s.keys().filter(|&other| key.is_none_or(|key| key == other));
    of_keys.flat_map(|key| orders(s, key, true)).any(|slot| {
        !s.line.iter().any(|waiter| waiter.key == slot.key && waiter.ticket < slot.ordered)
    })
}

/// Returns whether a key's own limits leave room for one more. Then its waiter could use any freed resource or place.
fn has_room(s: &ResourcePool, key: Key) -> bool {
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
        Action::Lost { at } | Action::VictimGone { at } => {
            let is_victim = before.adding[at].evicts.is_some_and(|(victim, _)| victim == id);
            is_victim || matches!(action, Action::Lost { .. }) && before.adding[at].id == id
        }
        Action::Destroyed { at } => {
            let Slot { id: left, evicts, .. } = before.leaving[at];
            evicts.map_or(left, |(victim, _)| victim) == id
        }
        _ => false,
    }
}

const ALL: u64 = 1 << kind::OWN
    | 1 << kind::FAILS
    | 1 << kind::BORROW
    | 1 << kind::GIVE_UP
    | 1 << kind::OTHERS
    | 1 << kind::IDLE_FAILS
    | 1 << kind::OUTDATES;

liveness! {
    Config:
    "PROP-RP-EVERY-BORROW-ENDS" "every borrow ends, with a resource or an error"
        assumes "borrowed resources are returned or given up, and not all resources that become idle are broken for ever; other actions may go on and fail for ever"
        promised true; applies |config| config.options.fair && !config.options.creates;
        may ALL & !(1 << kind::IDLE_FAILS); fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-EVERY-DISCARD-ENDS" "a borrower that takes broken resources again and again eventually gets another"
        assumes "borrowed resources are returned or given up; other actions may go on and fail for ever"
        promised false; applies |_| true;
        may ALL; fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-EVERY-BARGING-BORROW-ENDS" "every borrow ends where newcomers may barge, also while they come for ever"
        assumes "as before; and other actions than borrowing eventually stop"
        promised true; applies |config| !config.options.fair && !config.options.creates;
        may ALL & !(1 << kind::IDLE_FAILS | 1 << kind::OTHERS | 1 << kind::OUTDATES); fair |_| true;
        subjects |config| config.clients.len(); not_yet borrows;
    "PROP-RP-EVERY-ORDERED-BORROW-ENDS" "where the pool creates, every borrow ends, also where creations hang until their limit"
        assumes "as for every borrow; and the runtime, clear_all and lifetimes eventually stop to end what is created; and newcomers that may barge do not come for ever"
        promised true; applies |config| config.options.creates;
        may ALL & !(1 << kind::IDLE_FAILS | 1 << kind::OUTDATES); fair |_| true;
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
