//! What cannot be said: these do not compile, because the types rule them out (L3, L4, L28, L30
//! of the source's tests).

/// What the examples below use.
///
/// ```
/// use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// struct Words;
/// impl ResourceFactory for Words {
///     type Resource = String;
///     type Metadata = ();
///     type Error = ();
///     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// }
/// let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// let word: &str = &lent;
/// assert_eq!(word, "word");
/// drop(lent);
/// ```
///
/// To return one twice:
/// ```compile_fail,E0382
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// drop(lent);
/// drop(lent);
/// ```
///
/// To use one that was invalidated:
/// ```compile_fail,E0382
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// lent.invalidate();
/// assert!(!lent.is_empty());
/// ```
///
/// To invalidate one twice:
/// ```compile_fail,E0382
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// lent.invalidate();
/// lent.invalidate();
/// ```
///
/// To use what was lent after it was returned:
/// ```compile_fail,E0505
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// let word: &str = &lent;
/// drop(lent);
/// assert_eq!(word, "word");
/// ```
///
/// To return one that was detached:
/// ```compile_fail,E0382
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// let mine = lent.detach();
/// drop(lent);
/// drop(mine);
/// ```
///
/// To keep what was lent for longer than the pool it refers to (`into_owned` is for that):
/// ```compile_fail,E0505
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let lent = pool.borrow().unwrap();
/// drop(pool);
/// assert_eq!(*lent, "word");
/// ```
///
/// To build a pool without a factory, or with something else:
/// ```compile_fail,E0277
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let other = ResourcePool::builder("no factory", ());
/// ```
///
/// To change an option that there is none of:
/// ```compile_fail,E0599
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let other = ResourcePool::builder(Words, ()).max_idel(3);
/// ```
///
/// To give an unkeyed pool a limit per key:
/// ```compile_fail,E0599
/// # use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// # struct Words;
/// # impl ResourceFactory for Words {
/// #     type Resource = String;
/// #     type Metadata = ();
/// #     type Error = ();
/// #     fn create(&self, (): &()) -> Result<String, ()> { Ok("word".to_owned()) }
/// # }
/// # let pool = ResourcePool::builder(Words, ()).build().unwrap();
/// let other = ResourcePool::builder(Words, ()).max_total_per_key(3);
/// ```
struct CannotBeSaid;
