//! What every step keeps, and what comes about in the end.

use crate::resource_pool::invariants::{could_be_served, present, takeable};
use crate::resource_pool::machine::{Action, Config, kind};
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Limit, ResourcePool, Slot, SlotId, Test, Waiter, WhenExhausted,
};

/// Something that every step keeps.
pub struct StepProperty {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether a step from the first state to the second keeps it. None: nothing in the step is what it is
    /// about.
    pub judge: fn(&ResourcePool, &Action, &ResourcePool) -> Option<bool>,
}

macro_rules! step_properties {
    ($($name:literal $says:literal $judge:expr;)*) => {
        /// What every step keeps.
        pub const STEP_PROPERTIES: &[StepProperty] =
            &[$(StepProperty { name: $name, says: $says, judge: $judge }),*];
    };
}

step_properties! {
    "PROP-RP-NO-OVERTAKING" "nobody is served while somebody who came earlier waits and could use it, if the pool is fair"
        |before, _, after| {
            let served = served(before, after);
            let last = served.iter().map(|&(client, _)| ticket(before, client)).max()?;
            let mut passed = after.line.iter().filter(|waiter| waiter.ticket < last);
            (before.options.fair && passed.clone().next().is_some())
                .then(|| passed.all(|waiter| !could_use(after, waiter.key)))
        };
    "PROP-RP-FULL-KEY" "a borrower for whom there is something is served at once, whoever waits for other keys"
        |before, action, after| {
            let Action::Borrow { client, key, .. } = *action else { return None };
            let waits = before.line.iter().any(|waiter| waiter.key == key) && before.options.fair;
            (could_be_served(before, key) && !waits)
                .then(|| !matches!(after.clients[client], At::Out | At::Waiting(_)))
        };
    "PROP-RP-WITHIN" "nothing rises beyond its limit, nor while it is beyond a limit that was lowered"
        |before, _, after| {
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
    "PROP-RP-LOWERED" "after a limit was lowered nothing idle is too much, but what is being tested"
        |_, action, after| {
            let Action::Resize(_) = *action else { return None };
            let none = |key: Key| !after.idle_of(key).any(|idle| takeable(&idle));
            Some(after.keys().all(|key| {
                let in_stock = !after.surplus_of(key);
                none(key) || in_stock && !after.has_too_many(key)
            }))
        };
    "PROP-RP-IDLE-FIRST" "nobody creates while stock of its key can be lent"
        |before, action, after| {
            let anew = matches!(action, Action::CreateFails { .. });
            let created: Vec<Key> = after.told.iter().filter_map(|event| match event {
                Event::Creates(client, ..) if !anew => key_of(after, *client),
                _ => None,
            }).collect();
            let had = |key: &Key| before.idle_of(*key).any(|idle| takeable(&idle));
            (!created.is_empty()).then(|| !created.iter().any(|key| {
                had(key) && after.idle_of(*key).any(|idle| takeable(&idle))
            }))
        };
    "PROP-RP-ORDER" "the newest of a key's finished stock is lent, or the oldest if the pool is fifo"
        |before, _, after| each(taken(after).into_iter().map(|(client, id)| {
            let since = since(before, id);
            let mut stays = finished_of(after, key_of(after, client));
            completes(after, client)
                || stays.all(|idle| if before.options.fifo { idle.since > since } else { idle.since < since })
        }));
    "PROP-RP-FINISHED-FIRST" "a creation that was left by who began it is taken over if there is nothing finished, and then the first that was left"
        |before, _, after| {
            let over = taken(after).into_iter().filter(|&(client, _)| completes(after, client));
            each(over.map(|(client, id)| {
                let (key, since) = (key_of(after, client), since(before, id));
                let mut left = after.idle.iter().filter(|idle| idle.slot.unfinished);
                finished_of(after, key).next().is_none()
                    && left.all(|idle| Some(idle.slot.key) != key || idle.since > since)
            }))
        };
    "PROP-RP-OFFERED-ONCE" "a creation that who has taken it over leaves, too, is dropped"
        |before, action, after| {
            let slot = match *action {
                Action::CancelAdd { at } => before.adding[at],
                Action::Cancel { client } => match before.clients[client] {
                    At::Creating { slot, .. } => slot,
                    _ => return None,
                },
                _ => return None,
            };
            slot.unfinished.then(|| !present(after).contains(&slot.id))
        };
    "PROP-RP-CALLED-FOR" "for whoever is called there is something, a place or stock"
        |_, _, after| each(after.told.iter().filter_map(|event| match event {
            Event::Called(client) => match after.clients[*client] {
                At::Called(Waiter { key, .. }) => Some(after.closed || could_use(after, key)
                    && (after.limits.max_total.allows(after.num_total() + 1)
                        || after.idle.iter().any(|idle| takeable(&idle)))),
                _ => None,
            },
            _ => None,
        }));
    "PROP-RP-FRESH" "what has been idle or has lived for too long is not lent, though nobody has evicted it yet: neither to who comes upon it, nor to who was handed it and comes for it later"
        |before, action, after| {
            let found = taken(after).into_iter().map(|(_, id)| {
                !before.idle.iter().any(|idle| idle.slot.id == id && idle.over)
            });
            each(found.chain(comes_for(before, action, after).map(|slot| !slot.expired)))
        };
    "PROP-RP-VICTIM" "what makes room is stock of the borrower's own key that must not be lent any more; else what is not finished, or the least recently used of all that are idle"
        |before, _, after| each(makes_room(after).into_iter().map(|(client, victim)| {
            let was = before.idle.iter().find(|idle| idle.slot.id == victim);
            if let Some(own) = was.filter(|idle| Some(idle.slot.key) == key_of(after, client)) {
                return own.over;
            }
            let place = was.map(Idle::place);
            after.idle.iter().filter(takeable).all(|idle| Some(idle.place()) > place)
        }));
    "PROP-RP-KEEPS-PLACE" "a borrower whose resource fails keeps its place, and takes or creates another; so does one who completes a creation that fails, and one who comes for what it was handed"
        |before, action, after| {
            let client = match *action {
                Action::PrepareFails { client } => match before.clients[client] {
                    At::Preparing { fresh: false, .. } => client,
                    _ => return None,
                },
                Action::CreateFails { client } if before.clients[client].slot()?.unfinished => client,
                Action::Come { client } => client,
                _ => return None,
            };
            let goes_on = matches!(
                after.clients[client],
                At::Creating { .. } | At::Preparing { .. } | At::MakingRoom { .. }
            );
            (!before.closed).then_some(goes_on)
        };
    "PROP-RP-LATE-GRANT" "a hand-over that comes too late is passed on: the resource goes to another, or is idle again, if there is room"
        |before, action, after| {
            let Action::GiveUp { client } = *action else { return None };
            let At::Preparing { slot, .. } = before.clients[client] else { return None };
            let passes = !before.closed && !slot.old && !slot.expired
                && !before.has_too_many(slot.key);
            let full = !after.limits.max_idle.allows(after.idle_of(slot.key).count() + 1);
            passes.then(|| full || after.leaving.iter().all(|leaves| leaves.id != slot.id))
        };
    "PROP-RP-NOTHING-LOST" "no resource disappears, but who has it destroys it or keeps it for good"
        |before, action, after| {
            let there = present(after);
            let gone: Vec<SlotId> =
                present(before).into_iter().filter(|id| !there.contains(id)).collect();
            (!gone.is_empty()).then(|| gone.iter().all(|&id| may_go(before, action, id)))
        };
    "PROP-RP-CLEAR-ALL" "whatever there is when all is cleared leaves at once, or is too old to become idle again, or to be lent to who comes for it later"
        |before, action, after| {
            if let Some(slot) = comes_for(before, action, after) {
                return Some(!slot.old);
            }
            let Action::ClearAll = action else { return None };
            let mut slots = after.clients.iter().filter_map(At::slot).chain(&after.adding);
            let mut idle = after.idle.iter();
            Some(slots.all(|slot| slot.old) && idle.all(|idle| idle.test == Test::Doomed))
        };
    "PROP-RP-SPARED" "what is to make room, and need not, is idle again where it was, unless all was cleared meanwhile"
        |before, action, after| {
            if matches!(action, Action::Clear | Action::ClearAll) {
                let handed = |at: &&At| matches!(at, At::MakingRoom { handed: true, .. });
                let victims = after.clients.iter().filter(handed).filter_map(At::victim);
                return each(victims.map(|victim| victim.slot.old));
            }
            let Action::GiveUp { client } = *action else { return None };
            let spared = before.clients[client].victim()?;
            let again = after.idle.iter().find(|idle| idle.slot.id == spared.slot.id)?;
            Some(again.since == spared.since)
        };
    "PROP-RP-CLOSED" "a closed pool serves nobody"
        |before, _, after| before.closed.then(|| served(before, after).is_empty());
    "PROP-RP-UNDER-TEST" "what is being tested stays where it is until its test is over"
        |before, action, after| {
            let tested = before.idle.iter().enumerate().filter(|(at, idle)| {
                idle.test != Test::No && !matches!(action, Action::Tested { at: over, .. } if over == at)
            });
            each(tested.map(|(_, idle)| {
                after.idle.iter().any(|still| still.slot.id == idle.slot.id && still.test != Test::No)
            }))
        };
    "PROP-RP-MIN-IDLE" "what comes of age is evicted softly only while more than min_idle lie idle"
        |before, action, after| {
            let Action::Evict { at, hard: false } = *action else { return None };
            let Idle { slot, .. } = before.idle[at];
            let leaves = after.leaving.iter().any(|leaves| leaves.id == slot.id);
            leaves.then(|| slot.unfinished || before.finished_of(slot.key) > before.limits.min_idle)
        };
}

/// None: there is nothing to judge.
fn each(mut all: impl Iterator<Item = bool>) -> Option<bool> {
    let first = all.next()?;
    Some(first && all.all(|kept| kept))
}

/// Who has been served in a step, and with what.
fn served(before: &ResourcePool, after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let new = |client: ClientId| {
        matches!(before.clients[client], At::Out | At::Waiting(_) | At::Called(_))
    };
    let with = after.told.iter().filter_map(|event| match *event {
        Event::Takes(client, id) | Event::Completes(client, id) => Some((client, id)),
        Event::Creates(client, id, _) => Some((client, id)),
        _ => None,
    });
    with.filter(|&(client, _)| new(client)).collect()
}

/// How many of a key are idle that nobody was called for, and that could leave.
pub(crate) fn idle(s: &ResourcePool, key: Key) -> usize {
    s.idle_of(key).filter(takeable).count().saturating_sub(s.called(|waiter| waiter.key == key))
}

fn finished_of(s: &ResourcePool, key: Option<Key>) -> impl Iterator<Item = &Idle> {
    let finished = s.idle.iter().filter(|idle| takeable(idle) && !idle.slot.unfinished);
    finished.filter(move |idle| Some(idle.slot.key) == key)
}

/// Whether it has taken over what another had begun.
fn completes(s: &ResourcePool, client: ClientId) -> bool {
    matches!(s.clients[client], At::Creating { slot, .. } if slot.unfinished)
}

/// Who has taken something out of stock in a step, and what.
fn taken(after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let with = after.told.iter().filter_map(|event| match *event {
        Event::Takes(client, id) | Event::Completes(client, id) => Some((client, id)),
        _ => None,
    });
    with.collect()
}

/// With what somebody goes on who has come for what it was handed: out of stock, or in a place that it has.
fn comes_for(before: &ResourcePool, action: &Action, after: &ResourcePool) -> Option<Slot> {
    let Action::Come { client } = *action else { return None };
    after.clients[client].slot().copied().filter(|_| !before.closed)
}

/// Who creates in the place of another, and of which.
fn makes_room(after: &ResourcePool) -> Vec<(ClientId, SlotId)> {
    let victims = after.told.iter().filter_map(|event| match event {
        Event::Creates(client, _, Some(victim)) => Some((*client, *victim)),
        _ => None,
    });
    victims.collect()
}

fn key_of(s: &ResourcePool, client: ClientId) -> Option<Key> {
    s.clients[client].slot().map(|slot| slot.key)
}

/// When somebody came; a newcomer, who is in no line, after all others.
fn ticket(before: &ResourcePool, client: ClientId) -> usize {
    let waiter = before.line.iter().find(|waiter| waiter.client == client);
    waiter.map_or(usize::MAX, |waiter| waiter.ticket)
}

/// When something became idle; if it did so in the step itself, after all others.
fn since(before: &ResourcePool, id: SlotId) -> usize {
    let idle = before.idle.iter().find(|idle| idle.slot.id == id);
    idle.map_or(usize::MAX, |idle| idle.since)
}

/// Whether a key's own limits leave room for one more: then its waiter could use whatever becomes free.
fn could_use(s: &ResourcePool, key: Key) -> bool {
    let grows = s.options.when_exhausted == WhenExhausted::Grow;
    (grows || s.limits.max_active.allows(s.active[key] + 1))
        && (s.limits.max_total_per_key.allows(s.total[key] + 1)
            || s.idle_of(key).any(|idle| takeable(&idle)))
}

/// Whether whoever acts is the one that destroys this resource, or keeps it, or creates it in vain.
fn may_go(before: &ResourcePool, action: &Action, id: SlotId) -> bool {
    let own = |client: ClientId| before.clients[client].slot().is_some_and(|slot| slot.id == id);
    match *action {
        Action::Detach { client }
        | Action::PrepareFails { client }
        | Action::CreateFails { client } => own(client),
        Action::MadeRoom { client } => {
            before.clients[client].victim().is_some_and(|victim| victim.slot.id == id)
        }
        Action::Cancel { client } => own(client) && completes(before, client),
        Action::Come { client } | Action::GiveUp { client } => {
            own(client) && !matches!(before.clients[client], At::Preparing { .. })
        }
        Action::AddFails { at } => before.adding[at].id == id,
        Action::CancelAdd { at } => before.adding[at].id == id && before.adding[at].unfinished,
        Action::Destroyed { at } => before.leaving[at].id == id,
        _ => false,
    }
}

/// Something that comes about in the end, for each borrower or key by itself.
pub struct Liveness {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// What is assumed, beside that what can go on does (see [`Action::kind_and_class`]).
    pub assumes: &'static str,
    /// The kinds of actions that may go on for ever.
    pub may: u64,
    /// Whether it is promised; if not, it is known to fail, and where (`tests/resource_pool.rs`).
    pub promised: bool,
    /// In which pools it is.
    pub applies: fn(&Config) -> bool,
    /// Whether it is about borrowers; else about keys.
    pub of_clients: bool,
    /// Whether it has not come about yet.
    pub not_yet: fn(&ResourcePool, usize) -> bool,
}

const ALL: u64 = 1 << kind::OWN
    | 1 << kind::FAILS
    | 1 << kind::BORROW
    | 1 << kind::GIVE_UP
    | 1 << kind::OTHERS
    | 1 << kind::STOCK_FAILS;

/// In the end.
pub const LIVENESS: &[Liveness] = &[
    Liveness {
        name: "PROP-RP-EVERY-BORROW-ENDS",
        says: "every borrow ends, with a resource or an error",
        assumes: "what is lent is returned, or given up, and not all that others put into stock is broken for ever; everything else may go on for ever, and fail",
        may: ALL & !(1 << kind::STOCK_FAILS),
        promised: true,
        applies: |config| config.options.fair,
        of_clients: true,
        not_yet: borrows,
    },
    Liveness {
        name: "PROP-RP-EVERY-DISCARD-ENDS",
        says: "who finds what it took broken, again and again, has something else some day",
        assumes: "what is lent is returned, or given up; everything else may go on for ever, and fail",
        may: ALL,
        promised: false,
        applies: |_| true,
        of_clients: true,
        not_yet: borrows,
    },
    Liveness {
        name: "PROP-RP-EVERY-BARGING-BORROW-ENDS",
        says: "the same where newcomers may barge",
        assumes: "as before; and some day nobody new comes, and nobody interferes",
        may: ALL & !(1 << kind::STOCK_FAILS | 1 << kind::BORROW | 1 << kind::OTHERS),
        promised: true,
        applies: |config| !config.options.fair,
        of_clients: true,
        not_yet: borrows,
    },
    Liveness {
        name: "PROP-RP-REFILLED",
        says: "there are min_idle in the end of each key of which something has been made and anything is left, where there is room for them that nobody waits for, or creations were left",
        assumes: "what is added does not fail for ever; others stop borrowing, and interfering",
        may: 1 << kind::OWN,
        promised: true,
        applies: |_| true,
        of_clients: false,
        not_yet: |s, key| {
            let left = s.idle_of(key).any(|idle| idle.slot.unfinished);
            let room = s.has_room_for_stock(key) || s.adding_of(key) > 0 || left;
            let few = s.finished_of(key) < s.limits.min_idle;
            !s.closed && s.is_kept(key) && few && room && !s.keys().any(|key| s.is_eligible(key))
        },
    },
    Liveness {
        name: "PROP-RP-EVICTED",
        says: "what has been idle for too long leaves, or is lent, while there are more than min_idle; what is not finished in any case",
        assumes: "tests end; nobody adds or interferes for ever",
        may: 1 << kind::OWN | 1 << kind::FAILS | 1 << kind::STOCK_FAILS,
        promised: true,
        applies: |_| true,
        of_clients: false,
        not_yet: |s, key| {
            let spare = s.finished_of(key) > s.limits.min_idle;
            s.idle_of(key).any(|idle| idle.due && (idle.slot.unfinished || spare))
        },
    },
    Liveness {
        name: "PROP-RP-CLOSE-ENDS",
        says: "of a closed pool nothing is left in the end",
        assumes: "what is lent is returned, what is begun ends; others may go on asking, in vain",
        may: ALL,
        promised: true,
        applies: |_| true,
        of_clients: false,
        not_yet: |s, key| s.closed && s.total[key] > 0,
    },
];

fn borrows(s: &ResourcePool, client: usize) -> bool {
    !matches!(s.clients[client], At::Out | At::Lent(_))
}

impl Liveness {
    /// How many borrowers or keys it is about.
    pub fn subjects(&self, config: &Config) -> usize {
        if self.of_clients { config.clients.len() } else { config.keys }
    }
}

/// How many bits each property's marks take.
pub(crate) const SUBJECTS: usize = 8;

/// For each liveness property and each borrower or key: whether it has not come about yet.
pub(crate) fn marks(config: &Config, s: &ResourcePool) -> u64 {
    let mut bits = 0;
    for (at, property) in LIVENESS.iter().enumerate() {
        for subject in 0..property.subjects(config) {
            bits |= u64::from((property.not_yet)(s, subject)) << (at * SUBJECTS + subject);
        }
    }
    bits
}
