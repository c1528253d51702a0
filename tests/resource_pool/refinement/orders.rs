//! The creations that the pool orders: their tasks, as the machine's environment plays them.

use crate::refinement::calls::Call;
use crate::refinement::history::End;
use crate::refinement::mirror::{Adding, Ended, Ends, Mirror, Why};
use cabrank_spec::resource_pool::action::Action;
use cabrank_spec::resource_pool::state::{Event, Refusal, SlotId};

impl Mirror {
    /// Takes the creations that the pool has ordered.
    pub(crate) fn take_ordered(&mut self) -> Vec<Adding> {
        let test = self.world.test_on_create.then_some(Call::Validate);
        let calls = || [Call::Create].into_iter().chain(test).collect();
        self.ordered.drain(..).map(|id| Adding { id, calls: calls() }).collect()
    }

    pub(super) fn is_dropped(&self, id: SlotId) -> bool {
        self.dropped(id).is_some()
    }
    fn dropped(&self, id: SlotId) -> Option<usize> {
        self.spec.leaving.iter().position(|slot| slot.id == id && slot.dropped)
    }

    /// Runs the task of a creation that the pool has ordered. Returns whether it is done.
    pub(crate) fn run_order(&mut self, order: &mut Adding, ends: &mut Ends) -> bool {
        let slots = self.spec.adding.iter().chain(&self.spec.leaving);
        let evicts = slots.filter(|slot| slot.id == order.id).find_map(|slot| slot.evicts);
        if let Some((victim, _)) = evicts {
            self.gone(victim);
            self.apply(match self.dropped(order.id) {
                Some(at) => Action::Destroyed { at },
                None => Action::VictimGone { at: self.place(order) },
            });
        }
        let mut failure = None;
        while let Some(call) = order.calls.front().copied() {
            let Some(end) = self.call(call, order.id, ends) else {
                if self.is_dropped(order.id) {
                    break;
                }
                return false;
            };
            order.calls.pop_front();
            if end != End::Well {
                failure = Some(match call {
                    Call::Create => Ended::Create(end.why()),
                    _ => Ended::Invalid,
                });
                break;
            }
            if call == Call::Create {
                self.create(order.id);
            }
        }
        // Without an end, the task has dropped it before its result.
        let dropped = self.is_dropped(order.id);
        if failure.is_some() || order.calls.is_empty() {
            self.back_off = (failure.is_some() || dropped).then_some((u64::MAX, 0));
        }
        if dropped {
            if failure.is_none() && order.calls.is_empty() {
                // It was made, and is destroyed as any other that leaves.
                self.leaving.push_back(order.id);
                self.destroy();
            } else {
                self.end_dropped(order.id);
            }
            return true;
        }
        let at = self.place(order);
        let Some(failure) = failure else {
            self.apply(Action::Added { at });
            return true;
        };
        self.order_fails(order, failure);
        true
    }

    /// The task of a dropped creation has ended.
    pub(super) fn end_dropped(&mut self, id: SlotId) {
        self.gone(id);
        let at = self.dropped(id).expect("it is dropped");
        self.apply(Action::Destroyed { at });
    }

    /// An order whose creation has begun is overdue. Returns whether it is dropped by that.
    pub(crate) fn overdue(&mut self, order: &mut Adding) -> bool {
        let at = self.place(order);
        self.apply(Action::Overdue { at });
        self.is_dropped(order.id) && self.run_order(order, &mut Ends::new(&[], true))
    }

    /// Returns whether an order is not dropped.
    pub(crate) fn is_in_flight(&self, order: &Adding) -> bool {
        self.spec.adding.iter().any(|slot| slot.id == order.id)
    }
    /// Returns whether it awaits its creation, and not the test after it.
    pub(crate) fn is_creating(&self, order: &Adding) -> bool {
        self.is_in_flight(order) && order.calls.front() == Some(&Call::Create)
    }

    /// The creation of an order takes longer than its limit.
    pub(crate) fn time_out(&mut self, order: &Adding) {
        self.back_off = Some((u64::MAX, 0));
        self.order_fails(order, Ended::Create(Why::Time));
    }

    fn order_fails(&mut self, order: &Adding, failure: Ended) {
        self.gone(order.id);
        if self.is_dropped(order.id) {
            // The destruction had it dropped.
            return self.end_dropped(order.id);
        }
        let at = self.place(order);
        self.section(Action::AddFails { at });
        let failed = self.spec.events.iter().find_map(|event| match event {
            Event::Refused(client, Refusal::Failed) => Some(*client),
            _ => None,
        });
        if let Some(client) = failed {
            self.failed[client] = Some(failure);
        }
        self.destroy();
    }
}
