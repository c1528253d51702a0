//! Critical sections and waits (`src/kernel/section.rs`), on the smallest state that has both.

mod cancel_x_grant;
mod grant_x_wait;
mod passed_on_x_sleep;
mod rig;
mod timeout_x_sleep;
