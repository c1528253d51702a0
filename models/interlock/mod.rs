//! The load interlock: one file for each meeting of actors.

#[cfg(not(feature = "loom"))]
mod crowd;
mod dropped_wait_x_grant;
mod enter_x_unload;
mod load_x_unload;
mod permit_x_load;
mod permit_x_unload_x_newcomer;
mod resuming_x_release;
pub(super) mod rig;
mod time_limit_x_grant;
mod two_resuming_x_release;
mod upgrade_x_upgrade;
