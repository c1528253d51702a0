//! Compares both sides, and ends them.

use super::SideBySide;
use crate::common::look_until;
use crate::refinement::history::SpawnEnd;
use crate::refinement::observed::{Observed, of_the_real, of_the_specification};
use cabrank_spec::application_pool::pool::At;
use std::time::Duration;

impl SideBySide {
    /// Compares both sides. Spawns end on their own threads, so agreement may take a moment.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        let expected = of_the_specification(&self.spec, &self.reported);
        let seen = look_until(|| of_the_real(&self.pool, &self.spawner), |seen| *seen == expected);
        if seen != expected {
            return Err(difference(&seen, &expected));
        }
        for client in 0..self.clients.len() {
            // Another client's call may have ended a waiting get.
            if self.spec.clients[client].at == At::Out {
                self.run(client, &[]);
            }
        }
        if self.weak.iter().any(|weak| weak.upgrade().is_none()) {
            return Err("a handle lives, and a weak one does not find it".to_owned());
        }
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// Ends all clients and spawns; a closed pool must come to its end.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.clients.clear();
        let pool = self.pool.clone();
        let closing =
            self.closing.take().unwrap_or_else(|| std::thread::spawn(move || pool.close()));
        let ended = look_until(
            || {
                let in_flight = self.spawner.book().in_flight.clone();
                for ticket in in_flight {
                    let ends = [SpawnEnd::Well, SpawnEnd::Error, SpawnEnd::Panic];
                    self.spawner.end(ticket, ends[(ticket % 3) as usize]);
                }
                closing.is_finished() && self.pool.wait_closed(Duration::ZERO)
            },
            |ended| *ended,
        );
        if !ended {
            return Err(format!("a closed pool does not end: {:#?}", self.pool.snapshot()));
        }
        closing.join().map_err(|_| "close panicked".to_owned())?;
        let SideBySide { pool, weak, .. } = self;
        drop(pool);
        // The thread of a client may have its handle a moment longer.
        let found = || weak.iter().any(|weak| weak.upgrade().is_some());
        match look_until(found, |found| !found) {
            true => Err("no handle lives, and a weak one finds it".to_owned()),
            false => Ok(()),
        }
    }
}

/// The first lines that differ.
fn difference(seen: &Observed, expected: &Observed) -> String {
    let (seen, expected) = (format!("{seen:#?}"), format!("{expected:#?}"));
    let pairs = seen.lines().zip(expected.lines());
    let differing = pairs.filter(|(seen, expected)| seen != expected).take(12);
    differing
        .map(|(seen, expected)| {
            let (seen, expected) = (seen.trim(), expected.trim());
            format!("the pool has {seen} and the specification {expected}\n")
        })
        .collect()
}
