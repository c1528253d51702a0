//! The specification's machine, and the part that it leaves to its environment: the resource
//! in each slot, and the factory's pending calls.

use crate::refinement::calls::{Call, InnerCall, called};
use crate::refinement::history::{Bounds, End, Limit as Change, Number, World};
use crate::refinement::seen::seen_of;
use cabrank_spec::resource_pool::action::Action;
use cabrank_spec::resource_pool::rules::Rules;
use cabrank_spec::resource_pool::state::{
    At, ClientId, Event, Idle, Limit, Limits, Refusal, ResourcePool, SlotId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a call of the pool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Has(u32),
    Closed,
    Exhausted,
    WouldBlock,
    TimedOut,
    Create(Why),
    Activate(Why),
    Passivate(Why),
    Invalid,
    Added,
    Full,
}

/// How a call of the factory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Error,
    Panic,
    Time,
}

impl End {
    pub(super) fn why(self) -> Why {
        if self == End::Panic { Why::Panic } else { Why::Error }
    }
}

/// A creation for the idle list.
pub(crate) struct Adding {
    pub(super) id: SlotId,
    pub(super) calls: VecDeque<Call>,
}

/// The ends of a step's calls. When they run out, a thread's calls succeed, and a task pends.
pub(crate) struct Ends {
    ends: VecDeque<End>,
    tasks: bool,
}

impl Ends {
    pub(crate) fn new(ends: &[End], tasks: bool) -> Ends {
        Ends { ends: ends.iter().copied().collect(), tasks }
    }
    fn next(&mut self) -> Option<End> {
        self.ends.pop_front().or((!self.tasks).then_some(End::Well))
    }
}

#[derive(Clone)]
pub(crate) struct Mirror {
    pub(crate) spec: ResourcePool,
    pub(super) world: World,
    pub(crate) bounds: Bounds,
    /// In milliseconds.
    pub(super) now: u64,
    pub(super) next_run: Option<u64>,
    pub(super) back_off: Option<(u64, u32)>,
    made: u32,
    numbers: BTreeMap<SlotId, u32>,
    pub(super) created: BTreeMap<SlotId, u64>,
    pub(super) idle_since: BTreeMap<(SlotId, usize), u64>,
    /// When idle resources were granted that have not been picked up.
    pub(super) granted_since: BTreeMap<SlotId, u64>,
    /// The idle ones in the order in which they are tested.
    pub(super) turns: Vec<(SlotId, usize)>,
    unclean: BTreeSet<SlotId>,
    /// Of each borrower that has begun to activate: the pending calls.
    calls: Vec<Option<VecDeque<Call>>>,
    /// The creations that the pool has ordered, in order, until the test takes them.
    pub(super) ordered: Vec<SlotId>,
    /// How the creation failed whose error the borrower gets.
    pub(super) failed: Vec<Option<Ended>>,
    ended: Vec<Option<Refusal>>,
    pub(super) leaving: VecDeque<SlotId>,
    pub(crate) destroyed: Vec<u32>,
    /// The actions and events that have happened.
    pub(crate) happened: BTreeSet<String>,
    /// The calls of the pool by its factory that have happened, and within which call.
    pub(crate) called_back: BTreeSet<String>,
    /// The calls of the factory in the current step, and what was seen of the pool then.
    pub(crate) noted: Vec<String>,
    /// The resources that the real pool has destroyed in the current step.
    pub(crate) real_order: Vec<u32>,
    /// The call of the pool that the factory's call of this number in the step makes.
    pub(crate) inner: Option<(usize, InnerCall)>,
    /// How the borrow of the factory ended: `None`, if it waits.
    pub(crate) inner_ended: Option<Option<Ended>>,
    /// Whether resources are being destroyed, one after the other.
    pub(super) destroys: bool,
}

/// Returns the name of the variant.
fn word(what: &impl std::fmt::Debug) -> String {
    let text = format!("{what:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().into()
}

fn limit(number: Number) -> Limit {
    Limit(number)
}

pub(crate) fn limits(bounds: &Bounds) -> Limits {
    Limits {
        max_active: limit(bounds.active),
        max_total: limit(bounds.total),
        max_total_per_key: limit(bounds.per_key),
        max_idle: limit(bounds.max_idle()),
        min_idle: bounds.min_idle,
    }
}

/// Returns the idle resource that a waiter was granted and has not picked up.
fn granted_resource(at: &At) -> Option<SlotId> {
    match at {
        At::Activating { slot, granted: true, .. } => Some(slot.id),
        _ => None,
    }
}

/// Returns the place that a waiter was granted and has not picked up. The lifetime there has not
/// begun.
pub(super) fn granted_place(at: &At) -> Option<SlotId> {
    match at {
        At::Evicting { slot, granted: true, .. } => Some(slot.id),
        At::Creating { slot, granted: true, .. } => Some(slot.id),
        _ => None,
    }
}

impl Mirror {
    pub(crate) fn new(world: &World, keys: usize, clients: usize) -> Mirror {
        let limits = limits(&world.bounds);
        Mirror {
            spec: ResourcePool::new(Rules::AS_MENDED, world.options, limits, keys, clients),
            world: world.clone(),
            bounds: world.bounds,
            now: 0,
            next_run: world.test_while_idle.then_some(1_000),
            back_off: None,
            made: 0,
            numbers: BTreeMap::new(),
            created: BTreeMap::new(),
            idle_since: BTreeMap::new(),
            granted_since: BTreeMap::new(),
            turns: vec![],
            unclean: BTreeSet::new(),
            calls: vec![None; clients],
            ordered: vec![],
            failed: vec![None; clients],
            ended: vec![None; clients],
            leaving: VecDeque::new(),
            destroyed: vec![],
            happened: BTreeSet::new(),
            called_back: BTreeSet::new(),
            noted: vec![],
            real_order: vec![],
            inner: None,
            inner_ended: None,
            destroys: false,
        }
    }

    /// Runs one section, and then the destructions that it leaves.
    pub(crate) fn apply(&mut self, action: Action) {
        self.section(action);
        self.destroy();
    }

    pub(super) fn section(&mut self, action: Action) {
        let made = self.spec.made;
        self.spec.apply(&action);
        self.happened.insert(word(&action));
        for event in self.spec.events.clone() {
            self.happened.insert(word(&event));
            match event {
                Event::Waits(client) | Event::Takes(client, _) | Event::Creates(client, ..) => {
                    self.calls[client] = None
                }
                Event::Refused(client, why) => self.ended[client] = Some(why),
                // Its task drops it.
                Event::Leaves(id) if self.is_dropped(id) => {}
                Event::Leaves(id) => self.leaving.push_back(id),
                // It may have been granted to another waiter at once.
                Event::Idles(id) => drop(self.granted_since.remove(&id)),
                Event::Orders(id, _) => self.ordered.push(id),
                Event::Called(_) | Event::Has(..) | Event::Adds(_) => {}
            }
        }
        self.created.extend((made + 1..=self.spec.made).map(|id| (id, self.now)));
        let granted: Vec<_> = self.spec.clients.iter().filter_map(granted_resource).collect();
        self.granted_since.retain(|id, _| granted.contains(id));
        for id in granted {
            let idle = self.idle_since.iter().find(|((of, _), _)| *of == id);
            self.granted_since.entry(id).or_insert(idle.map_or(self.now, |(_, since)| *since));
        }
        let name = |idle: &Idle| (idle.slot.id, idle.since);
        // A victim may be spared and return to its place.
        let mut known: Vec<_> = self.spec.idle.iter().map(name).collect();
        known.extend(self.spec.clients.iter().filter_map(At::victim).map(name));
        self.idle_since.retain(|at, _| known.contains(at));
        for at in known {
            self.idle_since.entry(at).or_insert(self.now);
        }
        let finished: Vec<_> = self.spec.idle.iter().map(name).collect();
        self.turns.retain(|at| finished.contains(at));
        for at in finished {
            if !self.turns.contains(&at) {
                self.turns.push(at);
            }
        }
    }

    pub(super) fn destroy(&mut self) {
        if std::mem::replace(&mut self.destroys, true) {
            // The task that destroys goes on with it.
            return;
        }
        while let Some(id) = self.next_to_destroy() {
            self.gone(id);
            let at = self.spec.leaving.iter().position(|slot| slot.id == id);
            self.section(Action::Destroyed { at: at.expect("it leaves") });
        }
        self.destroys = false;
    }

    /// Returns whether the limit is accepted.
    pub(crate) fn resize(&mut self, change: Change) -> bool {
        let bounds = self.bounds.with(change);
        let valid = bounds.are_valid() && bounds.can_reach(change);
        if valid {
            self.bounds = bounds;
            self.apply(Action::Resize(limits(&bounds)));
        }
        valid
    }

    /// Of several that leave at once, the real pool says which is destroyed first.
    fn next_to_destroy(&mut self) -> Option<SlotId> {
        let at = (0..self.leaving.len()).min_by_key(|&at| self.turn(self.leaving[at]))?;
        self.leaving.remove(at)
    }

    /// Returns the turn of the resource in the slot among those that the real pool has destroyed. An empty slot comes first.
    pub(super) fn turn(&self, id: SlotId) -> Option<Option<usize>> {
        let number = self.numbers.get(&id)?;
        Some(self.real_order.iter().position(|other| other == number))
    }

    /// The resource in the slot, if there is one, is destroyed.
    pub(super) fn gone(&mut self, id: SlotId) {
        if let Some(number) = self.numbers.remove(&id) {
            self.destroyed.push(number);
            self.note(Call::Destroy, Some(number));
        }
    }

    /// Returns how a call of the factory ends; or `None`, if it pends.
    pub(super) fn call(&mut self, call: Call, id: SlotId, ends: &mut Ends) -> Option<End> {
        let end = ends.next()?;
        let number = self.numbers.get(&id).copied();
        self.note(call, number);
        Some(end)
    }

    fn note(&mut self, call: Call, number: Option<u32>) {
        let seen = called(call, number, &seen_of(&self.spec));
        self.noted.push(seen);
        let count = self.noted.len();
        if let Some((_, inner)) = self.inner.take_if(|(nth, _)| *nth < count) {
            self.calls_back(call, inner);
        }
    }

    pub(super) fn create(&mut self, id: SlotId) {
        self.made += 1;
        self.numbers.insert(id, self.made);
    }

    /// Runs a borrower. Returns `None` if it is not done.
    pub(crate) fn run(&mut self, client: ClientId, ends: &mut Ends) -> Option<Ended> {
        loop {
            match self.spec.clients[client] {
                At::Evicting { granted: true, .. }
                | At::Creating { granted: true, .. }
                | At::Activating { granted: true, .. } => {
                    self.section(Action::PickUp { client });
                    let waits = self.spec.events.contains(&Event::Waits(client));
                    self.destroy();
                    // It may have been granted another at once, but this run is done.
                    if waits {
                        return None;
                    }
                }
                At::Waiting(_) => return None,
                At::Called(_) => {
                    self.section(Action::Retry { client });
                    let waits = matches!(self.spec.clients[client], At::Waiting(_));
                    // A destruction may call it again, but this run is done.
                    self.destroy();
                    if waits {
                        return None;
                    }
                }
                At::Out => return Some(self.refused(client)),
                At::Lent(slot) => return Some(Ended::Has(self.numbers[&slot.id])),
                At::Evicting { victim, .. } => {
                    self.gone(victim.slot.id);
                    self.apply(Action::VictimDestroyed { client });
                }
                // Without a runtime, it awaits its own creation only.
                At::Creating { slot, .. } => {
                    let end = self.call(Call::Create, slot.id, ends)?;
                    if end == End::Well {
                        self.create(slot.id);
                        self.apply(Action::Created { client });
                        continue;
                    }
                    self.apply(Action::CreateFails { client });
                    if self.spec.clients[client] == At::Out
                        && self.ended[client] != Some(Refusal::Closed)
                    {
                        return Some(Ended::Create(end.why()));
                    }
                }
                At::Activating { slot, fresh, .. } => {
                    let Some(call) = self.next_call(client, slot.id, fresh) else {
                        self.apply(Action::Ready { client });
                        continue;
                    };
                    let end = self.call(call, slot.id, ends)?;
                    if end == End::Well {
                        self.calls[client].as_mut().and_then(VecDeque::pop_front);
                        continue;
                    }
                    if !fresh {
                        // Before the section, not after it.
                        self.gone(slot.id);
                    }
                    self.apply(Action::ActivateFails { client });
                    if fresh {
                        return Some(match call {
                            Call::Activate => Ended::Activate(end.why()),
                            _ => Ended::Invalid,
                        });
                    }
                }
            }
        }
    }

    /// The same on a thread, which retries when it is called again.
    pub(crate) fn run_through(&mut self, client: ClientId, ends: &mut Ends) -> Option<Ended> {
        loop {
            let ended = self.run(client, ends);
            if ended.is_some() || !matches!(self.spec.clients[client], At::Called(_)) {
                return ended;
            }
        }
    }

    /// Returns the next call that a borrower has to make for its resource.
    fn next_call(&mut self, client: ClientId, id: SlotId, fresh: bool) -> Option<Call> {
        if self.calls[client].is_none() {
            let mut calls = VecDeque::new();
            if fresh {
                let tested = self.world.test_on_create && !self.spec.options.creates;
                calls.extend(tested.then_some(Call::Validate));
                calls.push_back(Call::Activate);
            } else {
                if self.unclean.remove(&id) {
                    calls.extend(self.cleaning());
                }
                calls.push_back(Call::Activate);
                calls.extend(self.world.test_on_borrow.then_some(Call::Validate));
            }
            self.calls[client] = Some(calls);
        }
        self.calls[client].as_ref()?.front().copied()
    }

    fn cleaning(&self) -> impl Iterator<Item = Call> + use<> {
        let test = self.world.test_on_return.then_some(Call::Validate);
        test.into_iter().chain([Call::Passivate])
    }

    fn refused(&mut self, client: ClientId) -> Ended {
        match self.ended[client].take() {
            Some(Refusal::Closed) => Ended::Closed,
            Some(Refusal::Exhausted) => Ended::Exhausted,
            Some(Refusal::WouldBlock) => Ended::WouldBlock,
            Some(Refusal::GaveUp) => Ended::TimedOut,
            Some(Refusal::Failed) => self.failed[client].take().expect("a creation failed"),
            None => unreachable!("handled elsewhere"),
        }
    }

    /// Drops a borrower's task.
    pub(crate) fn cancel(&mut self, client: ClientId) {
        match self.spec.clients[client] {
            At::Out => {}
            At::Creating { granted: false, .. } | At::Activating { granted: false, .. } => {
                self.apply(Action::Cancel { client });
            }
            _ => self.apply(Action::GiveUp { client }),
        }
        (self.ended[client], self.failed[client]) = (None, None);
    }

    /// Returns a resource, passivated if that is done now.
    pub(crate) fn give_back(&mut self, client: ClientId, ends: Option<&mut Ends>) {
        let At::Lent(slot) = self.spec.clients[client] else { unreachable!("it has one") };
        let good = match ends {
            Some(ends) => {
                let mut calls = self.cleaning();
                calls.all(|call| self.call(call, slot.id, ends) == Some(End::Well))
            }
            None => {
                self.unclean.insert(slot.id);
                true
            }
        };
        self.apply(match good {
            true => Action::Return { client },
            false => Action::Invalidate { client },
        });
    }

    pub(crate) fn detach(&mut self, client: ClientId) {
        let slot = self.spec.clients[client].slot().copied();
        slot.and_then(|slot| self.numbers.remove(&slot.id));
        self.apply(Action::Detach { client });
    }

    /// Begins an addition, if there is room.
    pub(crate) fn add(&mut self, action: Action) -> Result<Adding, Ended> {
        self.apply(action);
        self.age_what_is_added();
        let added = self.spec.events.iter().find_map(|event| match event {
            Event::Adds(id) => *id,
            _ => None,
        });
        let full = if self.spec.closed { Ended::Closed } else { Ended::Full };
        let test = self.world.test_on_create.then_some(Call::Validate);
        let calls = [Call::Create].into_iter().chain(test).chain([Call::Passivate]);
        added.map(|id| Adding { id, calls: calls.collect() }).ok_or(full)
    }

    /// Runs an addition. Returns `None` if it is not done.
    pub(crate) fn run_add(&mut self, adding: &mut Adding, ends: &mut Ends) -> Option<Ended> {
        while let Some(call) = adding.calls.front().copied() {
            let end = self.call(call, adding.id, ends)?;
            adding.calls.pop_front();
            if end != End::Well {
                self.fail_add(adding);
                return Some(match call {
                    Call::Validate => Ended::Invalid,
                    Call::Passivate => Ended::Passivate(end.why()),
                    Call::Create | Call::Activate | Call::Destroy => Ended::Create(end.why()),
                });
            }
            if call == Call::Create {
                self.create(adding.id);
            }
        }
        if self.drops(adding) {
            return Some(Ended::Closed);
        }
        let (at, closed) = (self.place(adding), self.spec.closed);
        self.apply(Action::Added { at });
        Some(if closed { Ended::Closed } else { Ended::Added })
    }

    /// Drops the task of an addition: without a runtime its creation ends with it.
    pub(crate) fn fail_add(&mut self, adding: &Adding) {
        if self.drops(adding) {
            return;
        }
        self.gone(adding.id);
        // The destruction may have had it dropped.
        if self.drops(adding) {
            return;
        }
        let at = self.place(adding);
        self.apply(Action::AddFails { at });
    }

    /// A refill that was dropped during its last call ends. Returns whether it was.
    fn drops(&mut self, adding: &Adding) -> bool {
        let dropped = self.is_dropped(adding.id);
        if dropped {
            self.end_dropped(adding.id);
        }
        dropped
    }

    pub(super) fn place(&self, adding: &Adding) -> usize {
        let at = self.spec.adding.iter().position(|slot| slot.id == adding.id);
        at.expect("it is being added")
    }

    pub(super) fn test(&mut self, id: SlotId, valid: impl FnOnce(&mut Mirror, u32) -> bool) {
        let place = |idle: &Idle| idle.slot.id == id;
        // Within a call, the factory may have cleared the pool.
        let Some(at) = self.spec.idle.iter().position(place) else { return };
        self.apply(Action::Test { at });
        let valid = valid(self, self.numbers[&id]);
        let at = self.spec.idle.iter().position(place).expect("it is under test");
        self.apply(Action::Tested { at, valid });
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let all: Vec<SlotId> = self.spec.idle.iter().map(|idle| idle.slot.id).collect();
        for id in all {
            self.test(id, |_, number| keep(number));
        }
    }
}
