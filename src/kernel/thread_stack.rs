//! A stack of what the current thread is in, which works until the thread is gone.
//!
//! The destructors of thread-locals are user code, and may call the library after the library's own locals were
//! destroyed. So [`thread_stack!`] makes two locals. The first has a destructor, and keeps its memory until then. The
//! late one has none, and frees its memory whenever it is empty.

/// The entries of one thread, innermost last.
pub(crate) struct Stack<T> {
    entries: Vec<(u64, T)>,
    /// Numbers the entries. A number is never used twice, so a guard removes its own entry only.
    entered: u64,
}

/// The numbers in the late stack begin here, so that no guard of the first one removes its entries.
const FIRST_LATE: u64 = 1 << 63;

impl<T> Stack<T> {
    pub(crate) fn new() -> Self {
        Stack { entries: Vec::new(), entered: 0 }
    }
    pub(crate) fn late() -> Self {
        Stack { entries: Vec::new(), entered: FIRST_LATE }
    }
    /// Adds the innermost entry. Returns its number.
    #[inline]
    pub(crate) fn enter(&mut self, entry: T) -> u64 {
        self.entered += 1;
        self.entries.push((self.entered, entry));
        self.entered
    }
    /// Removes the entry with this number, in any order, unless it is in the thread's other stack.
    #[inline]
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(at) = self.entries.iter().rposition(|(entered, _)| *entered == number) {
            self.entries.remove(at);
        }
        if self.entered >= FIRST_LATE && self.entries.is_empty() {
            self.entries = Vec::new(); // no destructor frees it
        }
    }
    /// Returns the entries, innermost first.
    #[inline]
    pub(crate) fn innermost_first(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().rev().map(|(_, entry)| entry)
    }
}

/// Declares a thread's stack, and the function that calls a closure with it. The function returns `None` if a model has
/// destroyed the late stack, too.
macro_rules! thread_stack {
    ($(#[$doc:meta])* $with:ident, $entry:ty) => {
        crate::kernel::sync::thread::thread_local! {
            // loom's macro takes no `const` block.
            #[allow(clippy::missing_const_for_thread_local)]
            static STACK: std::cell::RefCell<crate::kernel::thread_stack::Stack<$entry>> =
                std::cell::RefCell::new(crate::kernel::thread_stack::Stack::new());
            #[allow(clippy::missing_const_for_thread_local)]
            static LATE: std::mem::ManuallyDrop<std::cell::RefCell<crate::kernel::thread_stack::Stack<$entry>>> =
                std::mem::ManuallyDrop::new(std::cell::RefCell::new(crate::kernel::thread_stack::Stack::late()));
        }

        $(#[$doc])*
        #[inline]
        fn $with<R>(mut f: impl FnMut(&mut crate::kernel::thread_stack::Stack<$entry>) -> R) -> Option<R> {
            let found = STACK.try_with(|stack| f(&mut stack.borrow_mut()));
            found.or_else(|_| LATE.try_with(|stack| f(&mut stack.borrow_mut()))).ok()
        }
    };
}
pub(crate) use thread_stack;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn entries_that_leave_in_any_order_leave_the_others_in_theirs() {
        for mut stack in [Stack::new(), Stack::late()] {
            let numbers = ["a", "b", "c", "d"].map(|entry| stack.enter(entry));
            let mut left = Vec::new();
            for nth in [0, 2, 3, 1] {
                stack.leave(numbers[nth]);
                left.push(stack.innermost_first().copied().collect::<String>());
            }
            assert_eq!(left, ["dcb", "db", "b", ""]);
        }
    }
}
