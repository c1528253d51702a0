//! The load interlock: one file for each meeting of actors.

mod cancel_x_grant;
#[cfg(not(feature = "loom"))]
mod crowd;
mod deadlock;
mod drop_on_other_thread;
mod enter_x_writer;
mod forfeit_x_leave;
mod forsaken_x_release;
mod giving_up;
mod load_x_load;
mod load_x_unload;
mod permit_x_load;
mod permit_x_unload_x_child;
pub(super) mod rig;
mod upgrade_x_upgrade;
