//! Models of the resource pool: each file lets two or more actors meet.

mod abandoned_x_return;
mod barging_x_waiter;
mod calling_key_x_forgotten;
mod cancel_x_next_waiter;
mod cancel_x_victim;
mod clear_all_x_return;
mod close_x_change;
mod close_x_creation;
mod close_x_grant;
mod close_x_maintenance;
mod close_x_waiter;
mod create_failure_x_waiter;
mod creation_cancelled_x_borrow;
#[cfg(not(feature = "loom"))]
mod crowd;
mod detach_x_waiter;
mod evictor_x_borrow;
mod failed_refill_x_maintenance;
mod fill_x_addition;
mod filling_x_borrow;
mod grant_x_clear_all;
mod invalidate_x_waiter;
mod key_eviction_x_borrow;
mod key_forgotten_x_borrow;
mod leaving_x_destroyer;
mod max_wait_x_return;
mod order_x_borrow;
mod resize_x_waiter;
mod return_x_borrow;
mod return_x_timeout;
pub(super) mod rig;
mod slow;
mod test_while_idle_x_borrow;
mod total_x_two_keys;
mod two_waits_x_close;
mod victim_x_waiter;
