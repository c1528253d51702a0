//! The numbers of the processes of one application: `NODE_APP_INSTANCE`, as pm2 counts.
//!
//! Each living process has another number, and the next process gets the lowest free one. A number is free when its process has
//! ended. So during a rolling restart, old and new processes have different numbers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The numbers that the processes of one application have.
#[derive(Debug, Default)]
pub(crate) struct InstanceNumbers(Mutex<BTreeSet<u32>>);

/// The number of one process. Its drop frees it.
#[derive(Debug)]
pub(crate) struct InstanceNumber {
    number: u32,
    taken: Arc<InstanceNumbers>,
}

impl InstanceNumbers {
    /// Takes the lowest free number.
    pub(crate) fn take(self: &Arc<Self>) -> InstanceNumber {
        // Code under this lock does not panic.
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
        taken.insert(number);
        drop(taken);
        InstanceNumber { number, taken: Arc::clone(self) }
    }
}

impl InstanceNumber {
    /// Returns the number.
    pub(crate) fn get(&self) -> u32 {
        self.number
    }
}

impl Drop for InstanceNumber {
    fn drop(&mut self) {
        self.taken.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_the_lowest_number_that_no_other_one_has() {
        let numbers = Arc::new(InstanceNumbers::default());
        let mut taken: Vec<_> = (0..3).map(|_| numbers.take()).collect();
        let all = |taken: &[InstanceNumber]| -> Vec<u32> {
            taken.iter().map(InstanceNumber::get).collect()
        };
        assert_eq!(all(&taken), [0, 1, 2]);
        taken.remove(1);
        taken.push(numbers.take());
        taken.push(numbers.take());
        assert_eq!(all(&taken), [0, 2, 1, 3]);
        taken.clear();
        assert_eq!(numbers.take().get(), 0);
    }
}
