//! The calls of the factory, and its own calls of the pool.

use crate::refinement::history::Limit;
use cabrank_spec::resource_pool::action::Action;
use cabrank_spec::resource_pool::state::{ClientId, Key};

/// A call of the factory that a borrower or an addition has to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Activate,
    Validate,
    Passivate,
    Destroy,
}

/// Returns the note of a call of the factory. `seen` is what was seen of the pool just before its end.
pub(crate) fn called(call: Call, resource: Option<u32>, seen: &str) -> String {
    let resource = resource.map_or(String::new(), |number| format!(" {number}"));
    format!("{call:?}{resource} of {seen}")
}

/// A call of the pool by its factory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InnerCall {
    Action(Action),
    Resize(Limit),
    Borrow(ClientId, Key),
    Return(ClientId),
}

impl InnerCall {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            InnerCall::Action(Action::Clear) => "Clear",
            InnerCall::Action(Action::ClearAll) => "ClearAll",
            InnerCall::Action(Action::Close) => "Close",
            InnerCall::Action(_) | InnerCall::Return(_) => "Return",
            InnerCall::Resize(_) => "Resize",
            InnerCall::Borrow(..) => "Borrow",
        }
    }
}
