//! The application pool: one file for each meeting of actors.

mod always_restart_x_waiter;
mod background_spawn_x_get;
mod calling_back_x_close;
mod cancel_x_spawn_failure;
mod clean_x_get;
mod clean_x_session_close;
mod cleaner_x_becoming_idle;
mod cleaner_x_close;
mod close_in_user_code;
mod close_x_close;
mod close_x_disposal;
mod close_x_waiter;
mod connect_failure_x_close;
#[cfg(not(feature = "loom"))]
mod crowd;
mod early_death_x_get;
mod eviction_x_get;
mod first_spawn_x_two_gets;
mod get_in_user_code;
mod get_x_session_close;
mod growth_x_get;
mod hanging_spawn_x_other_group;
mod kept_turn_x_get;
mod last_session_x_get;
#[cfg(not(feature = "loom"))]
mod linearizable;
mod minimum_x_detach;
mod newcomer_x_waiters;
mod overtaken_look;
mod queue_bound_x_close;
mod restart_x_failing_spawn;
mod restart_x_spawn;
mod rolling_restart_x_close;
mod second_attempt_x_get;
mod session_close_x_detach;
mod session_close_x_pool_drop;
mod set_max_x_waiter;
mod spawn_x_close;
mod spawn_x_detach;
mod spawn_x_new_group;
mod thread_failure_x_waiter;
mod two_groups_x_eviction;
mod wait_closed_x_close;
mod waiter_x_cancel;
mod waiter_x_timeout;
