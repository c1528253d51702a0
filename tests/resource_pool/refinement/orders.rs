//! The creations that the pool orders: their tasks, as the machine's environment plays them.

use crate::refinement::history::End;
use crate::refinement::mirror::{Adding, Call, Ended, Ends, Mirror};
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
            let Some(end) = ends.next() else {
                if self.is_dropped(order.id) {
                    break;
                }
                return false;
            };
            order.calls.pop_front();
            if end != End::Well {
                failure = Some(match call {
                    Call::Create => Ended::Create(end == End::Panic),
                    _ => Ended::Invalid,
                });
                break;
            }
            if call == Call::Create {
                self.create(order.id);
            }
        }
        if self.is_dropped(order.id) {
            self.gone(order.id);
            let at = self.dropped(order.id).expect("it is dropped");
            self.apply(Action::Destroyed { at });
            return true;
        }
        let at = self.place(order);
        let Some(failure) = failure else {
            self.apply(Action::Added { at });
            return true;
        };
        self.gone(order.id);
        self.section(Action::AddFails { at });
        let failed = self.spec.events.iter().find_map(|event| match event {
            Event::Refused(client, Refusal::Failed) => Some(*client),
            _ => None,
        });
        if let Some(client) = failed {
            self.failed[client] = Some(failure);
        }
        self.destroy();
        true
    }
}
