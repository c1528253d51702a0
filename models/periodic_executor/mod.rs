//! Models of the periodic executor: one file for each meeting of actors.

mod close_x_wake;
#[cfg(not(feature = "loom"))]
mod crowd_x_shutdown;
mod drop_x_upgrade;
mod join_x_thread;
mod open_x_exit;
mod open_x_failing_open;
pub(super) mod rig;
mod shutdown_x_open;
mod two_joins_x_end;
mod wake_x_park;
