//! Calls of the pool by its factory, within the pool's calls of it.

use crate::refinement::calls::{Call, InnerCall};
use crate::refinement::history::{Inner, Limit, Operation};
use crate::refinement::mirror::{Ends, Mirror};
use crate::refinement::real::{Lent, Task};
use crate::refinement::runtime::Timer;
use crate::refinement::side_by_side::{Client, INNER, SideBySide, of_lent, poll};
use cabrank_spec::resource_pool::action::Action;
use std::sync::{Arc, Mutex};

/// A borrow by the factory: its task, and how it ended.
type Begun = (Task<Lent>, Vec<Timer>, Option<Lent>);

impl Mirror {
    /// Does what the factory does within its call.
    pub(super) fn calls_back(&mut self, call: Call, inner: InnerCall) {
        self.called_back.insert(format!("{} within {call:?}", inner.name()));
        // Without a task that destroys, the section that lets a resource leave is followed by its destruction.
        let outer = match self.spec.options.creates {
            true => None,
            false => {
                let leaving = std::mem::take(&mut self.leaving);
                Some((leaving, std::mem::take(&mut self.destroys)))
            }
        };
        let mut ends = Ends::new(&[], self.world.tasks);
        match inner {
            InnerCall::Action(action) => self.apply(action),
            InnerCall::Resize(change) => drop(self.resize(change)),
            InnerCall::Borrow(client, key) => {
                self.apply(Action::Borrow { client, key, waits: true });
                self.inner_ended = Some(self.run(client, &mut ends));
            }
            InnerCall::Return(client) => {
                self.give_back(client, (!self.world.tasks).then_some(&mut ends));
            }
        }
        if let Some((leaving, destroys)) = outer {
            (self.leaving, self.destroys) = (leaving, destroys);
        }
    }
}

impl SideBySide {
    /// Within the nth call of the factory, this calls the pool.
    pub(super) fn within(
        &mut self,
        nth: usize,
        inner: Inner,
        operation: &Operation,
    ) -> Option<String> {
        let is_for_all_keys = match inner {
            Inner::ClearAll => true,
            Inner::Resize(change) => change.is_for_all_keys(),
            _ => false,
        };
        if is_for_all_keys && !self.mirror.world.may_compete() {
            return self.step(operation);
        }
        // A resource that is returned while upkeep destroys another one may let a third be evicted, which the minimum kept. The
        // specification evicts it in the same `maintain`, and the pool in the next one, for which its time is now.
        let may_expose_another =
            matches!(inner, Inner::Return { .. } | Inner::Resize(Limit::MinIdle(_)));
        if may_expose_another
            && matches!(operation, Operation::Tick { .. })
            && self.mirror.world.soft_max_idle_time.is_some()
        {
            return self.step(operation);
        }
        let (pool, begun) = (self.pool.clone(), Arc::<Mutex<Option<Begun>>>::default());
        let place = begun.clone();
        let mut borrower = None;
        let call: Box<dyn FnOnce() + Send> = match inner {
            Inner::Clear => Box::new(move || pool.clear()),
            Inner::ClearAll => Box::new(move || pool.clear_all()),
            Inner::Close => Box::new(move || pool.close()),
            Inner::Resize(change) => Box::new(move || {
                let _ = pool.resize(change);
            }),
            Inner::Borrow { key } => {
                let key = key % self.keys;
                if !matches!(self.clients[INNER], Client::Out) {
                    return self.step(operation);
                }
                let runtime = self.runtime.clone();
                Box::new(move || {
                    let mut task = pool.borrow(key, true);
                    let lent = poll(&mut task);
                    let timers = runtime.take_timers();
                    *place.lock().expect("no panic") = Some((task, timers, lent));
                })
            }
            Inner::Return { nth } => {
                let Some((client, guard)) = self.take_guard(nth) else {
                    return self.step(operation);
                };
                self.clients[client] = Client::Aside;
                borrower = Some(client);
                let guard = Arc::new(Mutex::new(Some(guard)));
                self.aside = Some(guard.clone());
                Box::new(move || drop(guard.lock().expect("no panic").take()))
            }
        };
        self.mirror.inner = Some((
            nth,
            match inner {
                Inner::Clear => InnerCall::Action(Action::Clear),
                Inner::ClearAll => InnerCall::Action(Action::ClearAll),
                Inner::Close => InnerCall::Action(Action::Close),
                Inner::Resize(change) => InnerCall::Resize(change),
                Inner::Borrow { key } => InnerCall::Borrow(INNER, key % self.keys),
                Inner::Return { .. } => {
                    let client = borrower.expect("taken above");
                    // A guard that is dropped by a panicking thread invalidates its resource.
                    match operation {
                        Operation::Die { .. } => InnerCall::Action(Action::Die { client }),
                        _ => InnerCall::Return(client),
                    }
                }
            },
        ));
        self.factory.within(nth, call);
        let done = self.step(operation);
        self.factory.without();
        let is_left = self.mirror.inner.take().is_some();
        if let Some((task, timers, lent)) = begun.lock().expect("no panic").take() {
            let ended = self.mirror.inner_ended.take().flatten();
            self.differ("a call by the factory", lent.as_ref().map(of_lent), ended);
            self.clients[INNER] = match lent {
                None => Client::Asking(task, timers),
                Some(lent) => lent.map_or(Client::Out, Client::Has),
            };
        }
        if let (Some(client), Some(guard)) = (borrower, self.aside.take()) {
            let guard = guard.lock().expect("no panic").take();
            self.clients[client] = guard.map_or(Client::Out, Client::Has);
        }
        let within = if is_left { "not" } else { "with" };
        done.map(|done| format!("{done}, {within} {inner:?} in call {nth}"))
    }
}
