//! Executor and reloader: one file for each meeting of actors.

mod async_begin_x_failing_reload;
#[cfg(not(feature = "loom"))]
mod change_x_failing_reload;
mod change_x_reload;
mod change_x_two_executions;
mod complete_async_x_load;
mod complete_x_drop;
mod dropped_execution_x_reload;
mod dropped_future_x_reload;
mod dropped_reload_x_unload;
mod dropped_wrap_async_x_load;
mod failed_reload_x_execution;
mod nested_wrap_x_load;
mod reload_now_x_reload;
mod reset_x_failing_reload;
