//! What the models of the resource pool share: a factory that does what it is told and counts what there
//! is, and a pool of its things, with keys and without.
//!
//! Its calls, and those of the listener, re-enter the pool in the models that call `Things::reentrant`; so do
//! the wakers of futures that `Things::door` polls. That no lock is held where a key is hashed or compared is
//! asserted in all that have keys.

pub(in crate::models) use crate::models::rig::{Bell, Door, explore, explore_small, spawn};
pub(in crate::models) use crate::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, Builder, Failure, KeyedResourcePool,
    ResourceFactory, ResourcePool,
};
pub(in crate::models) use std::time::Duration;

use crate::ManualClock;
use crate::sync::has_failed;
use crate::user_code::SCRIPTED;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

pub(in crate::models) const SECOND: Duration = Duration::from_secs(1);

/// A key. Only its first letter is hashed, so that `x1` and `x2` are in each other's way.
#[derive(Clone, Copy, Debug)]
pub(in crate::models) struct Name(pub(in crate::models) &'static str);

/// Keys are the user's: they are hashed and compared without a lock.
fn assert_unlocked() {
    assert!(has_failed() || crate::sync::held::by_me() == 0, "a key is looked at under a lock");
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

/// What is lent.
#[derive(Debug)]
pub(in crate::models) struct Thing {
    /// The first that was made is 1.
    pub(in crate::models) number: u32,
    pub(in crate::models) of: Name,
}

/// A call of the factory, and which thing it is about.
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

/// Its numbers are no steps: one thread of a model runs at a time.
#[derive(Clone, Default)]
pub(in crate::models) struct Factory {
    book: Arc<Mutex<Book>>,
    door: Door,
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
    /// How the next creations end; those after them end well.
    pub(in crate::models) fn next(&self, makes: &[Make]) {
        self.book().next.extend(makes);
    }
    /// This one fails its tests.
    pub(in crate::models) fn spoil(&self, number: u32) {
        self.book().invalid.push(number);
    }
    /// What is done in each call, once that has entered.
    pub(in crate::models) fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        self.book().hook = Some(Arc::new(hook));
    }
    fn call(&self, call: Call) {
        self.door.enter();
        let hook = self.book().hook.clone();
        if let Some(hook) = hook.filter(|_| !has_failed()) {
            hook(call);
        }
    }
    /// How many have been made.
    pub(in crate::models) fn made(&self) -> u32 {
        self.book().made
    }
    /// How many there were at once, at most.
    pub(in crate::models) fn most(&self) -> usize {
        self.book().most
    }
    /// The same of one key.
    pub(in crate::models) fn most_of(&self, of: Name) -> usize {
        self.book().most_of.get(of.0).copied().unwrap_or(0)
    }
    /// Which were destroyed, in that order.
    pub(in crate::models) fn gone(&self) -> Vec<u32> {
        self.book().gone.clone()
    }
    fn make(&self, of: Name) -> Thing {
        let mut book = self.book();
        book.made += 1;
        let number = book.made;
        book.alive.push((number, of));
        book.most = book.most.max(book.alive.len());
        let of_key = book.alive.iter().filter(|(_, other)| other.0 == of.0).count();
        let most = book.most_of.entry(of.0).or_default();
        *most = of_key.max(*most);
        Thing { number, of }
    }
    /// It is ours alone now, and drops out of the count.
    pub(in crate::models) fn forget(&self, thing: &Thing) {
        let mut book = self.book();
        let at = book.alive.iter().position(|(number, _)| *number == thing.number);
        let at = at.expect("each leaves once");
        book.alive.swap_remove(at);
    }
}

impl ResourceFactory for Factory {
    type Resource = Thing;
    type Metadata = Name;
    type Error = &'static str;

    fn create(&self, of: &Name) -> Result<Thing, &'static str> {
        self.call(Call::Create);
        let next = self.book().next.pop_front();
        match next.unwrap_or(Make::Well) {
            Make::Well => Ok(self.make(*of)),
            Make::Fail => Err("as told"),
            // As a factory may, and not as a model that fails: no report is made of it.
            Make::Panic => resume_unwind(Box::new(format!("{SCRIPTED} in create"))),
        }
    }
    fn destroy(&self, of: &Name, thing: Thing) {
        assert_eq!(*of, thing.of, "destroyed as another key's");
        // It is there until this is over.
        self.call(Call::Destroy(thing.number));
        self.forget(&thing);
        self.book().gone.push(thing.number);
    }
    fn validate(&self, of: &Name, thing: &mut Thing) -> bool {
        assert_eq!(*of, thing.of, "tested as another key's");
        self.call(Call::Validate(thing.number));
        !self.book().invalid.contains(&thing.number)
    }
    fn activate(&self, of: &Name, thing: &mut Thing) -> Result<(), &'static str> {
        assert_eq!(*of, thing.of, "lent as another key's");
        self.call(Call::Activate(thing.number));
        Ok(())
    }
    fn passivate(&self, of: &Name, thing: &mut Thing) -> Result<(), &'static str> {
        assert_eq!(*of, thing.of, "returned as another key's");
        self.call(Call::Passivate(thing.number));
        Ok(())
    }
}

pub(in crate::models) type Unkeyed = ResourcePool<Factory>;
pub(in crate::models) type Keyed = KeyedResourcePool<Name, Factory>;
pub(in crate::models) type Lent = Borrowed<'static, Factory>;

/// A pool, the factory that makes its things, and the clock that is moved by hand.
pub(in crate::models) struct Things<P> {
    pub(in crate::models) pool: P,
    pub(in crate::models) factory: Factory,
    pub(in crate::models) clock: ManualClock,
}

pub(in crate::models) fn unkeyed(
    configure: impl FnOnce(Builder<Factory, Unkeyed>) -> Builder<Factory, Unkeyed>,
) -> Things<Unkeyed> {
    let (factory, clock) = (Factory::default(), ManualClock::new());
    let builder = Unkeyed::builder(factory.clone(), Name("a"));
    let door = factory.door.clone();
    let builder = builder.listener(move |_, _| door.enter());
    let builder = builder.clock(clock.clock()).maintenance(false);
    let pool = configure(builder).build().expect("a valid pool");
    Things { pool, factory, clock }
}

pub(in crate::models) fn keyed(
    configure: impl FnOnce(Builder<Factory, Keyed>) -> Builder<Factory, Keyed>,
) -> Things<Keyed> {
    let (factory, clock) = (Factory::default(), ManualClock::new());
    let builder = Keyed::builder(factory.clone());
    let door = factory.door.clone();
    let builder = builder.listener(move |_, _| door.enter());
    let builder = builder.clock(clock.clock()).maintenance(false);
    let pool = configure(builder).build().expect("a valid pool");
    Things { pool, factory, clock }
}

macro_rules! either {
    ($($pool:ident),*) => {$(
        impl Things<$pool> {
            /// Each call of the factory and of the listener re-enters the pool.
            pub(in crate::models) fn reentrant(self) -> Self {
                let weak = self.pool.downgrade();
                self.factory.door.open(move || {
                    if let Some(pool) = weak.upgrade() {
                        pool.num_idle();
                    }
                });
                self
            }
            /// Where what is polled re-enters the pool.
            pub(in crate::models) fn door(&self) -> &Door {
                &self.factory.door
            }
            /// Active, idle, total.
            pub(in crate::models) fn counts(&self) -> (usize, usize, usize) {
                (self.pool.num_active(), self.pool.num_idle(), self.pool.num_total())
            }
            /// Closes the pool, of which nothing is lent any more. Gives back what was destroyed, all in all.
            pub(in crate::models) fn end(&self) -> Vec<u32> {
                assert_eq!((self.pool.num_active(), self.pool.num_waiting()), (0, 0));
                self.pool.close();
                assert!(self.pool.wait_closed(SECOND), "nothing is left of a closed pool");
                all_gone(&self.factory)
            }
        }
    )*};
}

either!(Unkeyed, Keyed);

impl Things<Unkeyed> {
    /// One that is lent, for whatever thread.
    pub(in crate::models) fn lend(&self) -> Lent {
        Borrowed::into_owned(self.pool.borrow().expect("a thing"))
    }
}

impl Things<Keyed> {
    pub(in crate::models) fn lend(&self, name: Name) -> Lent {
        Borrowed::into_owned(self.pool.borrow(&name).expect("a thing"))
    }
}

fn all_gone(factory: &Factory) -> Vec<u32> {
    let book = factory.book();
    assert!(book.alive.is_empty(), "never destroyed: {:?}", book.alive);
    let mut gone = book.gone.clone();
    gone.sort_unstable();
    gone
}

/// Borrows, and gives back at once; the number of what it was lent.
pub(in crate::models) fn use_one(pool: &Unkeyed) -> u32 {
    pool.borrow().expect("a thing").number
}

/// The same of a key.
pub(in crate::models) fn use_one_of(pool: &Keyed, name: Name) -> u32 {
    let lent = pool.borrow(&name).expect("a thing");
    assert_eq!(lent.of, name, "lent a thing of another key");
    lent.number
}
