//! The settings of an application: the pseudocode's `PoolOptions`.
//!
//! [`PoolOptions`] is a counted reference to values that never change. A `get` compares one pointer, and
//! the pool applies new values exactly when it is given a different object.

use super::group_name;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How the pool replaces processes when a restart file asks for it.
///
/// ```
/// use cabrank::PoolOptions;
/// use cabrank::application_pool::RestartMode;
///
/// let shop = PoolOptions::new("/srv/shop").with_restart_mode(RestartMode::Rolling);
/// assert_eq!(shop.restart_mode(), RestartMode::Rolling);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestartMode {
    /// Every process of the group leaves at once, and the next `get` is served by new code: for
    /// development.
    #[default]
    Immediate,
    /// The old processes serve until a process with the new code is ready, and leave one by one. If the new code
    /// does not boot, they stay.
    Rolling,
}

/// The application that a `get` is for, and the settings of its group. Cheap to clone.
///
/// ```
/// use cabrank::PoolOptions;
/// let options = PoolOptions::new("/srv/shop").with_min_processes(2).with_max_requests(1000);
/// assert_eq!(options.app_group_name(), "/srv/shop");
/// ```
#[derive(Clone, Debug)]
pub struct PoolOptions(Arc<Fields>);

#[derive(Debug)]
struct Fields {
    app_root: PathBuf,
    app_group_name: String,
    environment: String,
    min_processes: usize,
    max_requests: Option<NonZeroUsize>,
    use_global_queue: bool,
    eager_growth: bool,
    restart_dir: Option<PathBuf>,
    restart_mode: RestartMode,
    max_queue: Option<NonZeroUsize>,
    max_queue_time: Option<Duration>,
    /// The key of the group that the pool found for this object last. It is verified before use; a wrong one
    /// costs a look into the map of names.
    group_hint: AtomicUsize,
}

fn limit(option: &str, max: Option<usize>) -> Option<NonZeroUsize> {
    max.map(|max| match NonZeroUsize::new(max) {
        Some(max) => max,
        None => panic!("{option} must not be zero"),
    })
}

impl Clone for Fields {
    fn clone(&self) -> Self {
        Fields {
            app_root: self.app_root.clone(),
            app_group_name: self.app_group_name.clone(),
            environment: self.environment.clone(),
            restart_dir: self.restart_dir.clone(),
            group_hint: AtomicUsize::new(usize::MAX),
            ..*self
        }
    }
}

impl PoolOptions {
    /// Returns the options of the application in `app_root`. Its group is named after the directory: equal
    /// [`Path`]s name one group, with or without a trailing slash, and different ones name different groups.
    ///
    /// Defaults: no minimum, no maximum of requests, the processes' own concurrency, restart files in
    /// `app_root/tmp`, immediate restarts, at most 100 waiting gets, environment `production`.
    pub fn new(app_root: impl Into<PathBuf>) -> Self {
        let app_root = app_root.into();
        PoolOptions(Arc::new(Fields {
            app_group_name: group_name::of_directory(&app_root),
            app_root,
            environment: "production".into(),
            min_processes: 0,
            max_requests: None,
            use_global_queue: false,
            eager_growth: false,
            restart_dir: None,
            restart_mode: RestartMode::default(),
            max_queue: NonZeroUsize::new(100),
            max_queue_time: None,
            group_hint: AtomicUsize::new(usize::MAX),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Fields)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Sets the name of the group. Several application roots may share one.
    ///
    /// ```
    /// # use cabrank::PoolOptions;
    /// let blue = PoolOptions::new("/srv/shop/blue").with_app_group_name("shop");
    /// assert_eq!(blue.app_group_name(), "shop");
    /// ```
    #[must_use]
    pub fn with_app_group_name(self, name: impl Into<String>) -> Self {
        self.with(|f| f.app_group_name = name.into())
    }

    /// Sets how many processes the pool keeps for this group after its first get; default: 0. The cleaner leaves that
    /// many, and lost ones are replaced in the background.
    #[must_use]
    pub fn with_min_processes(self, min: usize) -> Self {
        self.with(|f| f.min_processes = min)
    }

    /// Sets how many sessions a process is given in all; `None`: no limit. With its last session the process is
    /// detached: another one may take its place at once, and it is shut down after that session or the pool's drain
    /// timeout. Applies to processes attached from then on.
    ///
    /// ```
    /// # use cabrank::PoolOptions;
    /// let leaky = PoolOptions::new("/srv/leaky").with_max_requests(1000);
    /// assert_eq!(leaky.max_requests(), Some(1000));
    /// assert_eq!(leaky.with_max_requests(None).max_requests(), None);
    /// ```
    ///
    /// # Panics
    /// Panics if `max` is 0: such a process would serve no request.
    #[must_use]
    pub fn with_max_requests(self, max: impl Into<Option<usize>>) -> Self {
        let max = limit("max_requests", max.into());
        self.with(|f| f.max_requests = max)
    }

    /// Gives each process one session at a time, whatever concurrency it claims: gets wait in the pool's queue instead
    /// of the process's own. Applies to processes attached from then on.
    #[must_use]
    pub fn with_global_queue(self, on: bool) -> Self {
        self.with(|f| f.use_global_queue = on)
    }

    /// Sets whether the group grows as soon as each of its processes has a session, even if they have room for more.
    /// Default: no, it grows when all of them are full. A process without a limit of concurrency is never full.
    ///
    /// With it, an application whose processes queue sessions of their own spreads over several processes.
    ///
    /// ```
    /// # use cabrank::PoolOptions;
    /// let options = PoolOptions::new("/srv/shop").with_eager_growth(true);
    /// assert!(options.eager_growth());
    /// ```
    #[must_use]
    pub fn with_eager_growth(self, on: bool) -> Self {
        self.with(|f| f.eager_growth = on)
    }

    /// Sets the directory of `restart.txt` and `always_restart.txt`, absolute or relative to the
    /// application root. Default: `tmp`.
    ///
    /// ```
    /// # use cabrank::PoolOptions;
    /// # use std::path::Path;
    /// let options = PoolOptions::new("/srv/shop").with_restart_dir("run");
    /// assert_eq!(options.restart_dir(), Path::new("/srv/shop/run"));
    /// ```
    #[must_use]
    pub fn with_restart_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.with(|f| f.restart_dir = Some(dir.into()))
    }

    /// Sets how a restart is carried out.
    #[must_use]
    pub fn with_restart_mode(self, mode: RestartMode) -> Self {
        self.with(|f| f.restart_mode = mode)
    }

    /// Sets the environment that the application runs in, such as `RAILS_ENV`.
    #[must_use]
    pub fn with_environment(self, environment: impl Into<String>) -> Self {
        self.with(|f| f.environment = environment.into())
    }

    /// Sets how many gets may wait for this group; `None`: no limit. One more fails with
    /// [`GetError::QueueFull`](crate::application_pool::GetError::QueueFull).
    ///
    /// ```
    /// # use cabrank::PoolOptions;
    /// let options = PoolOptions::new("/srv/shop");
    /// assert_eq!(options.max_queue(), Some(100));
    /// assert_eq!(options.with_max_queue(None).max_queue(), None);
    /// ```
    ///
    /// # Panics
    /// Panics if `max` is 0: the first get of a group waits for its process.
    #[must_use]
    pub fn with_max_queue(self, max: impl Into<Option<usize>>) -> Self {
        let max = limit("max_queue", max.into());
        self.with(|f| f.max_queue = max)
    }

    /// Sets for how long a get may wait in the group's queue, whatever its own time limit; `None`, the default: for
    /// ever. A get that has waited for longer fails with [`GetError::QueuedTooLong`](crate::application_pool::GetError::QueuedTooLong).
    ///
    /// The time in which a process boots counts, that of the group's first process included: give it more time than a
    /// boot takes. With `Duration::ZERO` a get is served by a process with room, or orders one and fails soon.
    ///
    /// The cleaner ends the wait. In a pool without it, only [`clean`](crate::application_pool::ApplicationPool::clean) does.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, ManualClock, PoolOptions, in_memory::InMemorySpawner};
    /// # let builder = ApplicationPool::builder(InMemorySpawner::new());
    /// # let pool = builder.clock(ManualClock::new().clock()).max(1).build()?;
    /// use cabrank::application_pool::GetError;
    /// use std::time::Duration;
    ///
    /// let shop = PoolOptions::new("/srv/shop");
    /// let only = pool.get(&shop)?;
    /// let hurried = shop.with_max_queue_time(Duration::ZERO); // its gets do not queue
    /// assert!(matches!(pool.get(&hurried), Err(GetError::QueuedTooLong)));
    /// # drop(only);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_queue_time(self, max: impl Into<Option<Duration>>) -> Self {
        let max = max.into();
        self.with(|f| f.max_queue_time = max)
    }

    /// Returns the application's top directory.
    pub fn app_root(&self) -> &Path {
        &self.0.app_root
    }
    /// Returns the name of the group.
    ///
    /// The name of a directory is its path. Each byte of it that is not Unicode is written as U+FFFD and two
    /// hexadecimal digits.
    pub fn app_group_name(&self) -> &str {
        &self.0.app_group_name
    }
    /// Returns the environment.
    pub fn environment(&self) -> &str {
        &self.0.environment
    }
    /// Returns the minimum of processes.
    #[inline]
    pub fn min_processes(&self) -> usize {
        self.0.min_processes
    }
    /// Returns the maximum of sessions that a process is given.
    pub fn max_requests(&self) -> Option<usize> {
        self.0.max_requests.map(usize::from)
    }
    /// Returns whether each process takes one session at a time.
    pub fn use_global_queue(&self) -> bool {
        self.0.use_global_queue
    }
    /// Returns whether the group grows although its processes have room.
    #[inline]
    pub fn eager_growth(&self) -> bool {
        self.0.eager_growth
    }
    /// Returns how a restart is carried out.
    #[inline]
    pub fn restart_mode(&self) -> RestartMode {
        self.0.restart_mode
    }
    /// Returns how many gets may wait.
    pub fn max_queue(&self) -> Option<usize> {
        self.0.max_queue.map(usize::from)
    }
    /// Returns for how long a get may wait in the queue.
    pub fn max_queue_time(&self) -> Option<Duration> {
        self.0.max_queue_time
    }
    /// Returns the directory of the restart files.
    pub fn restart_dir(&self) -> PathBuf {
        // `join` with an absolute path is that path, so this covers absolute directories, too.
        let dir = self.0.restart_dir.as_deref().unwrap_or(Path::new("tmp"));
        self.0.app_root.join(dir)
    }

    #[inline]
    pub(crate) fn same(&self, other: &PoolOptions) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    #[inline]
    pub(crate) fn group_hint(&self) -> usize {
        self.0.group_hint.load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn set_group_hint(&self, key: usize) {
        self.0.group_hint.store(key, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_restart_directory_may_be_absolute_relative_or_left_out() {
        let o = PoolOptions::new("/srv/a");
        assert_eq!(o.restart_dir(), Path::new("/srv/a/tmp"));
        assert_eq!(o.clone().with_restart_dir("x/y").restart_dir(), Path::new("/srv/a/x/y"));
        assert_eq!(o.with_restart_dir("/run/a").restart_dir(), Path::new("/run/a"));
    }

    #[test]
    fn a_limit_of_zero_is_refused_where_it_is_set() {
        let set: [fn(PoolOptions) -> PoolOptions; 2] =
            [|o| o.with_max_requests(0), |o| o.with_max_queue(0)];
        for set in set {
            assert!(std::panic::catch_unwind(|| set(PoolOptions::new("/srv/a"))).is_err());
        }
    }

    #[test]
    fn a_changed_copy_is_another_object() {
        let a = PoolOptions::new("/srv/a");
        assert!(a.same(&a.clone()));
        let b = a.clone().with_min_processes(1);
        assert!(!a.same(&b));
        assert_eq!((a.min_processes(), b.min_processes()), (0, 1));
    }
}
