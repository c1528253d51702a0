//! Executor and reloader: one file for each meeting of actors.

mod begin_x_failing_reload;
mod change_x_reload;
mod complete_x_drop;
mod dropped_future_x_reload;
mod dropped_wait_x_section;
mod failed_reload_x_execution;
mod nested_wrap_x_load;
mod per_execution_x_end;
