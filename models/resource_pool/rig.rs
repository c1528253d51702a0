//! A scripted factory that counts its resources, and pools of them with keys and without.
//!
//! With `Rig::reentrant`, the calls of the factory and of the listener re-enter the pool. So do the wakers of
//! futures that are polled by `Rig::reentry`. Each model with keys asserts that the pool hashes and compares a key
//! without a lock.

pub(in crate::models) use crate::models::rig::{
    Counter, Model, Reentry, explore, explore_small, spawn,
};
pub(in crate::models) use crate::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, Builder, Failure, KeyedResourcePool, Pool,
    ResourceFactory, ResourcePool,
};
pub(in crate::models) use std::time::Duration;

use crate::ManualClock;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::SCRIPTED;
use crate::resource_pool::Form;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

pub(in crate::models) const SECOND: Duration = Duration::from_secs(1);

/// A key. Only its first letter is hashed, so that `x1` and `x2` collide.
#[derive(Clone, Copy, Debug)]
pub(in crate::models) struct Name(pub(in crate::models) &'static str);

/// Asserts that the pool calls the key, which is user code, without a lock.
fn assert_unlocked() {
    assert!(
        has_failed() || crate::kernel::sync::held::by_me() == 0,
        "a key is looked at under a lock"
    );
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        assert_unlocked();
        self.0 == other.0
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert_unlocked();
        self.0.as_bytes()[0].hash(state);
    }
}

/// The resource.
#[derive(Debug)]
pub(in crate::models) struct Resource {
    /// Counts the creations from 1.
    pub(in crate::models) number: u32,
    pub(in crate::models) of: Name,
}

/// A call of the factory, with the number of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::models) enum Call {
    Create,
    Destroy(u32),
    Validate(u32),
    Activate(u32),
    Passivate(u32),
}

/// How a creation ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::models) enum Make {
    Well,
    Fail,
    Panic,
}

/// A scripted factory. Its locks are no steps: only one thread of a model runs at a time.
#[derive(Clone, Default)]
pub(in crate::models) struct Factory {
    book: Arc<Mutex<Book>>,
    reentry: Reentry,
}

type Hook = Arc<dyn Fn(Call) + Send + Sync>;

#[derive(Default)]
struct Book {
    made: u32,
    alive: Vec<(u32, Name)>,
    most: usize,
    most_of: BTreeMap<&'static str, usize>,
    gone: Vec<u32>,
    next: VecDeque<Make>,
    invalid: Vec<u32>,
    hook: Option<Hook>,
}

impl Factory {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while it is held")
    }
    /// Scripts how the next creations end; later ones succeed.
    pub(in crate::models) fn next(&self, makes: &[Make]) {
        self.book().next.extend(makes);
    }
    /// Makes the resource fail its tests.
    pub(in crate::models) fn spoil(&self, number: u32) {
        self.book().invalid.push(number);
    }
    /// Sets the hook of each call, which runs after the call has re-entered the pool.
    pub(in crate::models) fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        self.book().hook = Some(Arc::new(hook));
    }
    fn call(&self, call: Call) {
        self.reentry.enter();
        let hook = self.book().hook.clone();
        if let Some(hook) = hook.filter(|_| !has_failed()) {
            hook(call);
        }
    }
    /// Returns how many resources were created.
    pub(in crate::models) fn made(&self) -> u32 {
        self.book().made
    }
    /// Returns the highest number of resources that existed at once.
    pub(in crate::models) fn most(&self) -> usize {
        self.book().most
    }
    /// Like [`most`](Self::most), for one key.
    pub(in crate::models) fn most_of(&self, of: Name) -> usize {
        self.book().most_of.get(of.0).copied().unwrap_or(0)
    }
    /// Returns the destroyed resources, in the order of their destruction.
    pub(in crate::models) fn gone(&self) -> Vec<u32> {
        self.book().gone.clone()
    }
    fn make(&self, of: Name) -> Resource {
        let mut book = self.book();
        book.made += 1;
        let number = book.made;
        book.alive.push((number, of));
        book.most = book.most.max(book.alive.len());
        let of_key = book.alive.iter().filter(|(_, other)| other.0 == of.0).count();
        let most = book.most_of.entry(of.0).or_default();
        *most = of_key.max(*most);
        Resource { number, of }
    }
    /// Takes a destroyed or detached resource out of the count.
    pub(in crate::models) fn forget(&self, resource: &Resource) {
        let mut book = self.book();
        let at = book.alive.iter().position(|(number, _)| *number == resource.number);
        let at = at.expect("each leaves once");
        book.alive.swap_remove(at);
    }
}

impl ResourceFactory for Factory {
    type Resource = Resource;
    type Metadata = Name;
    type Error = &'static str;

    fn create(&self, of: &Name) -> Result<Resource, &'static str> {
        self.call(Call::Create);
        let next = self.book().next.pop_front();
        match next.unwrap_or(Make::Well) {
            Make::Well => Ok(self.make(*of)),
            Make::Fail => Err("on purpose"),
            // A factory may panic. The payload says that the model scripted it, so no report is printed.
            Make::Panic => resume_unwind(Box::new(format!("{SCRIPTED} in create"))),
        }
    }
    fn destroy(&self, of: &Name, resource: Resource) {
        assert_eq!(*of, resource.of, "destroyed as another key's");
        // The resource counts until its destruction ends.
        self.call(Call::Destroy(resource.number));
        self.forget(&resource);
        self.book().gone.push(resource.number);
    }
    fn validate(&self, of: &Name, resource: &mut Resource) -> bool {
        assert_eq!(*of, resource.of, "tested as another key's");
        self.call(Call::Validate(resource.number));
        !self.book().invalid.contains(&resource.number)
    }
    fn activate(&self, of: &Name, resource: &mut Resource) -> Result<(), &'static str> {
        assert_eq!(*of, resource.of, "lent as another key's");
        self.call(Call::Activate(resource.number));
        Ok(())
    }
    fn passivate(&self, of: &Name, resource: &mut Resource) -> Result<(), &'static str> {
        assert_eq!(*of, resource.of, "returned as another key's");
        self.call(Call::Passivate(resource.number));
        Ok(())
    }
}

pub(in crate::models) type Unkeyed = ResourcePool<Factory>;
pub(in crate::models) type Keyed = KeyedResourcePool<Name, Factory>;
pub(in crate::models) type Lent = Borrowed<'static, Factory>;

/// A pool, its factory and its manual clock.
pub(in crate::models) struct Rig<P> {
    pub(in crate::models) pool: P,
    pub(in crate::models) factory: Factory,
    pub(in crate::models) clock: ManualClock,
}

type AnyPool<K> = Pool<Factory, K>;

fn rig_of<K>(
    builder: impl FnOnce(Factory) -> Builder<Factory, AnyPool<K>>,
    configure: impl FnOnce(Builder<Factory, AnyPool<K>>) -> Builder<Factory, AnyPool<K>>,
) -> Rig<AnyPool<K>> {
    let (factory, clock) = (Factory::default(), ManualClock::new());
    let reentry = factory.reentry.clone();
    let builder = builder(factory.clone()).listener(move |_, _| reentry.enter());
    let builder = builder.clock(clock.clock()).maintenance(false);
    let pool = configure(builder).build().expect("a valid pool");
    Rig { pool, factory, clock }
}

pub(in crate::models) fn unkeyed(
    configure: impl FnOnce(Builder<Factory, Unkeyed>) -> Builder<Factory, Unkeyed>,
) -> Rig<Unkeyed> {
    rig_of(|factory| Unkeyed::builder(factory, Name("a")), configure)
}

pub(in crate::models) fn keyed(
    configure: impl FnOnce(Builder<Factory, Keyed>) -> Builder<Factory, Keyed>,
) -> Rig<Keyed> {
    rig_of(Keyed::builder, configure)
}

/// Lets the user code re-enter the pool.
pub(in crate::models) fn enable_for<F: Form, K: 'static>(reentry: &Reentry, pool: &Pool<F, K>) {
    let weak = pool.downgrade();
    reentry.enable(move || {
        if let Some(pool) = weak.upgrade() {
            pool.num_idle();
        }
    });
}

impl<K: 'static> Rig<AnyPool<K>> {
    /// Makes each call of the factory and of the listener re-enter the pool.
    pub(in crate::models) fn reentrant(self) -> Self {
        enable_for(&self.factory.reentry, &self.pool);
        self
    }
    /// Returns what polls with wakers that re-enter the pool.
    pub(in crate::models) fn reentry(&self) -> &Reentry {
        &self.factory.reentry
    }
    /// Returns the numbers of active, idle and all resources.
    pub(in crate::models) fn counts(&self) -> (usize, usize, usize) {
        (self.pool.num_active(), self.pool.num_idle(), self.pool.num_total())
    }
    /// Closes the pool, which must have no loan left. Returns all destroyed resources, sorted.
    pub(in crate::models) fn end(&self) -> Vec<u32> {
        assert_eq!((self.pool.num_active(), self.pool.num_waiting()), (0, 0));
        self.pool.close();
        assert!(self.pool.wait_closed(SECOND), "nothing is left of a closed pool");
        all_gone(&self.factory)
    }
}

impl Rig<Unkeyed> {
    /// Borrows a resource that may move to another thread.
    pub(in crate::models) fn lend(&self) -> Lent {
        Borrowed::into_owned(self.pool.borrow().expect("a resource"))
    }
}

impl Rig<Keyed> {
    pub(in crate::models) fn lend(&self, name: Name) -> Lent {
        Borrowed::into_owned(self.pool.borrow(&name).expect("a resource"))
    }
}

fn all_gone(factory: &Factory) -> Vec<u32> {
    let book = factory.book();
    assert!(book.alive.is_empty(), "never destroyed: {:?}", book.alive);
    let mut gone = book.gone.clone();
    gone.sort_unstable();
    gone
}

/// Borrows a resource and returns it at once; returns its number.
pub(in crate::models) fn use_one(pool: &Unkeyed) -> u32 {
    pool.borrow().expect("a resource").number
}

/// Like [`use_one`], for a key.
pub(in crate::models) fn use_one_of(pool: &Keyed, name: Name) -> u32 {
    let lent = pool.borrow(&name).expect("a resource");
    assert_eq!(lent.of, name, "lent a resource of another key");
    lent.number
}
