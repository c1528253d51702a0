//! A factory whose resources say what happens to them.

use cabrank::resource_pool::ResourceFactory;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What a factory is asked for, in order.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<State>);

#[derive(Default)]
struct State {
    made: AtomicUsize,
    alive: AtomicUsize,
    most_alive: AtomicUsize,
    fails: AtomicBool,
    panics: AtomicBool,
    calls: Mutex<Vec<(&'static str, usize)>>,
}

#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) number: usize,
    pub(crate) active: bool,
    pub(crate) valid: bool,
}

impl Script {
    fn call(&self, what: &'static str, number: usize) {
        self.0.calls.lock().expect("no panic holds it").push((what, number));
    }
    pub(crate) fn calls(&self) -> Vec<(&'static str, usize)> {
        std::mem::take(&mut self.0.calls.lock().expect("no panic holds it"))
    }
    pub(crate) fn fail(&self, fails: bool) {
        self.0.fails.store(fails, SeqCst);
    }
    pub(crate) fn panic(&self, panics: bool) {
        self.0.panics.store(panics, SeqCst);
    }
    pub(crate) fn alive(&self) -> usize {
        self.0.alive.load(SeqCst)
    }
    /// The most that were alive at once.
    pub(crate) fn most_alive(&self) -> usize {
        self.0.most_alive.load(SeqCst)
    }
    pub(crate) fn made(&self) -> usize {
        self.0.made.load(SeqCst)
    }
}

impl ResourceFactory for Script {
    type Resource = Resource;
    type Metadata = &'static str;
    type Error = String;

    fn create(&self, _: &&'static str) -> Result<Resource, String> {
        assert!(!self.0.panics.load(SeqCst), "on purpose");
        if self.0.fails.load(SeqCst) {
            return Err("on purpose".to_owned());
        }
        let number = self.0.made.fetch_add(1, SeqCst) + 1;
        let alive = self.0.alive.fetch_add(1, SeqCst) + 1;
        self.0.most_alive.fetch_max(alive, SeqCst);
        self.call("create", number);
        Ok(Resource { number, active: false, valid: true })
    }
    fn destroy(&self, _: &&'static str, resource: Resource) {
        self.0.alive.fetch_sub(1, SeqCst);
        self.call("destroy", resource.number);
    }
    fn validate(&self, _: &&'static str, resource: &mut Resource) -> bool {
        self.call("validate", resource.number);
        resource.valid
    }
    fn activate(&self, _: &&'static str, resource: &mut Resource) -> Result<(), String> {
        assert!(!resource.active, "activated twice");
        resource.active = true;
        self.call("activate", resource.number);
        Ok(())
    }
    fn passivate(&self, _: &&'static str, resource: &mut Resource) -> Result<(), String> {
        resource.active = false;
        self.call("passivate", resource.number);
        Ok(())
    }
}
