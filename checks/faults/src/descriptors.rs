//! The limit of descriptors of this program, whose clients may be thousands.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest that is allowed.
pub(crate) fn raise_limit() -> Result<(), String> {
    let hard = hard_limit() as u64;
    let all = Rlimit { current: Some(hard), maximum: Some(hard) };
    setrlimit(Resource::Nofile, all).map_err(|e| e.to_string())
}

/// Returns the highest limit that is allowed.
pub(crate) fn hard_limit() -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(1 << 20, |limit| limit as usize)
}
