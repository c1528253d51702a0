//! The waits of `waiting.rs`, as waits of a pool: the kernel needs the pool's lock and its effects for them.

use super::inner::Inner;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::section::Wait;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::Effects;
use crate::resource_pool::state::state::State;
use crate::resource_pool::state::waiting::Waits;

impl<F: Form, W: Waits<F>> Wait<Inner<F>> for W {
    type Outcome = W::Outcome;
    type GivenUp = ();

    #[inline]
    fn take(&mut self, state: &mut State<F>, fx: &mut Effects<F>) -> Option<W::Outcome> {
        Waits::take(self, state, fx)
    }
    #[inline]
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        Waits::wake(self, state)
    }
    #[inline]
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        Waits::give_up(self, state, fx);
    }
}
