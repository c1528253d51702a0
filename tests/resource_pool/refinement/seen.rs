//! The observable state of both sides, as one text.

use crate::refinement::real::Pool;
use cabrank::resource_pool::ResourceState;
use cabrank_spec::resource_pool::state::ResourcePool;

/// Returns what is seen of the real pool.
pub(crate) fn seen_of_the_real(pool: &Pool, keys: usize) -> String {
    let snapshot = pool.snapshot();
    let of_key = |key: usize| {
        let found = snapshot.keys.iter().find(|of| of.key().is_none_or(|of| *of == key));
        let Some(found) = found else { return line(key, 0, 0, 0, &[], 0, 0) };
        let of = |state: ResourceState| found.resources.iter().filter(move |r| r.state == state);
        let is_idle = |state| matches!(state, ResourceState::Idle | ResourceState::Tested);
        let idle: Vec<_> = found
            .resources
            .iter()
            .filter(|r| is_idle(r.state))
            .map(|resource| resource.id as usize)
            .collect();
        let adding = of(ResourceState::BeingCreated).count();
        let leaving = of(ResourceState::Leaving).count();
        line(key, found.active, found.total, found.waiting, &idle, adding, leaving)
    };
    let keys: String = (0..keys).map(of_key).collect();
    let waiting = pool.num_waiting();
    format!("closed {}, total {}, waiting {waiting}{keys}", snapshot.closed, snapshot.total)
}

/// Returns what the specification says is seen.
pub(crate) fn seen_of(spec: &ResourcePool) -> String {
    let of_key = |key: usize| {
        let waiting = spec.line.iter().filter(|waiter| waiter.key == key).count();
        let idle: Vec<_> = spec.idle_of(key).map(|idle| idle.slot.id).collect();
        let leaving = spec.leaving.iter().filter(|slot| slot.key == key).count();
        let adding = spec.adding_of(key);
        line(key, spec.active[key], spec.total[key], waiting, &idle, adding, leaving)
    };
    let keys: String = spec.keys().map(of_key).collect();
    let waiting = spec.line.len();
    format!("closed {}, total {}, waiting {waiting}{keys}", spec.closed, spec.num_total())
}

/// The observable state of a key. An idle entry is a slot's number.
fn line(
    key: usize,
    active: usize,
    total: usize,
    waiting: usize,
    idle: &[usize],
    adding: usize,
    leaving: usize,
) -> String {
    format!(
        "\n    key {key}: active {active}, total {total}, waiting {waiting}, idle {idle:?}, being added {adding}, leaving {leaving}"
    )
}
