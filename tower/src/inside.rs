//! Calls of the inner service inside an execution.

use cabrank::execution::Execution;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `f` inside the execution. A panic passes through, and is noted as the execution's failure.
pub(crate) fn inside<R>(execution: &mut Execution<'static>, f: impl FnOnce() -> R) -> R {
    let called = catch_unwind(AssertUnwindSafe(|| execution.within(|_| f())));
    called.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "a value that is not a string".to_owned());
        execution.fail(format!("it panicked: {text}"));
        resume_unwind(panic)
    })
}
