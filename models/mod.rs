//! Models: the real code of `src/`, under every interleaving (`cargo test --features loom`) and under
//! many random ones (`cargo test --features shuttle`).
//!
//! Each file is one meeting of actors. Its first lines say who meets whom, what is asserted, and what
//! would go wrong without the line of `src/` that it guards. Both tools run the same models, and must
//! reach the same outcomes: a search that was cut, or went blind, fails; `executions.rs` has loom's figures.
//!
//! In every model, every invariant of the pool but INV-PROCESS-HERE, which would be a step for each process, is
//! asserted at the end of each critical section, and at each foreign call that its thread holds no lock
//! (`contained`). Each kind of foreign call re-enters the
//! pool in some models besides: README.md has a table of them. Models of the two pools in which loom
//! cannot afford it say so.
//! `faults.py` takes away, one by one, the lines that the models guard, and tells which models notice.

pub(crate) mod executions;
mod interlock_rig;
mod rig;
pub(crate) mod small;
mod world;

mod always_restart_x_waiter;
mod async_begin_x_failing_reload;
mod background_spawn_x_get;
mod calling_back_x_close;
mod cancel_x_spawn_failure;
#[cfg(not(feature = "loom"))]
mod change_x_failing_reload;
mod change_x_reload;
mod change_x_two_executions;
mod clean_x_get;
mod clean_x_session_close;
mod cleaner_x_becoming_idle;
mod cleaner_x_close;
mod close_in_foreign_call;
mod close_x_close;
mod close_x_disposal;
mod close_x_waiter;
mod complete_async_x_load;
mod complete_x_drop;
mod connect_failure_x_close;
#[cfg(not(feature = "loom"))]
mod crowd;
mod dropped_execution_x_reload;
mod dropped_future_x_reload;
mod dropped_reload_x_unload;
mod dropped_wrap_async_x_load;
mod eviction_x_get;
mod failed_reload_x_execution;
mod first_spawn_x_two_gets;
mod get_x_session_close;
mod hanging_spawn_x_other_group;
mod interlock_cancel_x_grant;
#[cfg(not(feature = "loom"))]
mod interlock_crowd;
mod interlock_deadlock;
mod interlock_drop_on_other_thread;
mod interlock_enter_x_writer;
mod interlock_forfeit_x_leave;
mod interlock_forsaken_x_release;
mod interlock_giving_up;
mod interlock_load_x_load;
mod interlock_load_x_unload;
mod interlock_permit_x_load;
mod interlock_permit_x_unload_x_child;
mod interlock_upgrade_x_upgrade;
#[cfg(not(feature = "loom"))]
mod linearizable;
mod look_x_session_close;
mod minimum_x_detach;
mod nested_wrap_x_load;
mod newcomer_x_waiters;
mod overtaken_look;
mod periodic_close_x_wake;
#[cfg(not(feature = "loom"))]
mod periodic_crowd_x_shutdown;
mod periodic_drop_x_upgrade;
mod periodic_open_x_exit;
mod periodic_open_x_failing_open;
mod periodic_rig;
mod periodic_shutdown_x_open;
mod periodic_wake_x_park;
mod pool_rig;
mod queue_bound_x_close;
mod reload_now_x_reload;
mod reset_x_failing_reload;
mod resource_abandoned_x_return;
mod resource_at_hand;
mod resource_barging_x_waiter;
mod resource_calling_key_x_forgotten;
mod resource_cancel_x_next_waiter;
mod resource_cancel_x_victim;
mod resource_clear_all_x_return;
mod resource_close_x_change;
mod resource_close_x_creation;
mod resource_close_x_handed;
mod resource_close_x_left_creation;
mod resource_close_x_maintenance;
mod resource_close_x_waiter;
mod resource_create_failure_x_waiter;
mod resource_creation_cancelled_x_borrow;
#[cfg(not(feature = "loom"))]
mod resource_crowd;
mod resource_detach_x_waiter;
mod resource_evictor_x_borrow;
mod resource_failed_refill_x_maintenance;
mod resource_filling_x_borrow;
mod resource_handed_x_clear_all;
mod resource_invalidate_x_waiter;
mod resource_key_eviction_x_borrow;
mod resource_key_forgotten_x_borrow;
mod resource_look_x_return;
mod resource_resize_x_waiter;
mod resource_return_x_borrow;
mod resource_return_x_time_out;
mod resource_test_while_idle_x_borrow;
mod resource_total_x_two_keys;
mod resource_victim_x_waiter;
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
mod waiter_x_time_out;
