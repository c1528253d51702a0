//! Misuse that does not compile. The examples restate tests of the Elixir pool's suite that the types make
//! unnecessary.

/// The setup that all examples share:
///
/// ```
/// use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// struct Words;
/// impl ResourceFactory for Words {
///     type Resource = String;
///     type Metadata = ();
///     type Error = String;
///     fn create(&self, (): &()) -> Result<String, String> { Ok("word".to_owned()) }
/// }
/// let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// let word: &str = &lent;
/// assert_eq!(word, "word");
/// drop(lent);
/// ```
///
/// Returning a resource twice:
/// ```compile_fail,E0382
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// drop(lent);
/// drop(lent);
/// ```
///
/// Using a resource after it was invalidated:
/// ```compile_fail,E0382
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// Borrowed::invalidate(lent);
/// assert!(!lent.is_empty());
/// ```
///
/// Invalidating a resource twice:
/// ```compile_fail,E0382
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// Borrowed::invalidate(lent);
/// Borrowed::invalidate(lent);
/// ```
///
/// Using a resource after it was returned:
/// ```compile_fail,E0505
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// let word: &str = &lent;
/// drop(lent);
/// assert_eq!(word, "word");
/// ```
///
/// Returning a detached resource:
/// ```compile_fail,E0382
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// let mine = Borrowed::detach(lent);
/// drop(lent);
/// drop(mine);
/// ```
///
/// Keeping a borrowed resource beyond its pool (`into_owned` allows that):
/// ```compile_fail,E0505
#[doc = include_str!("misuse.txt")]
/// let lent = pool.borrow().unwrap();
/// drop(pool);
/// assert_eq!(*lent, "word");
/// ```
///
/// Building a pool without a factory:
/// ```compile_fail,E0277
#[doc = include_str!("misuse.txt")]
/// let other = ResourcePool::builder("no factory", ());
/// ```
///
/// Setting an unknown option:
/// ```compile_fail,E0599
#[doc = include_str!("misuse.txt")]
/// let other = ResourcePool::builder(Words, ()).max_idel(3);
/// ```
///
/// Limiting each key of a pool without keys:
/// ```compile_fail,E0599
#[doc = include_str!("misuse.txt")]
/// let other = ResourcePool::builder(Words, ()).max_total_per_key(3);
/// ```
struct Misuse;
