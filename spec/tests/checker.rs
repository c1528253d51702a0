//! Tests of the checker on machines with known answers.

use cabrank_spec::checking::key::key;
use cabrank_spec::checking::machine::{Machine, UNFAIR};
use cabrank_spec::checking::search::{Search, explore};

/// Dining philosophers. Each takes the left fork first; if `mended`, the last takes the right one first.
struct Philosophers {
    n: usize,
    mended: bool,
}

/// The holder of each fork, and the number of forks of each philosopher.
type Table = (Vec<Option<usize>>, Vec<u8>);

impl Philosophers {
    fn forks(&self, who: usize) -> [usize; 2] {
        let (left, right) = (who, (who + 1) % self.n);
        if self.mended && who + 1 == self.n { [right, left] } else { [left, right] }
    }
}

impl Machine for Philosophers {
    type State = Table;
    type Action = usize;
    fn initial(&self) -> Table {
        (vec![None; self.n], vec![0; self.n])
    }
    fn actions(&self, (held, has): &Table) -> Vec<usize> {
        let can =
            |&who: &usize| has[who] == 2 || held[self.forks(who)[has[who] as usize]].is_none();
        (0..self.n).filter(can).collect()
    }
    fn step(&self, (held, has): &Table, &who: &usize) -> Table {
        let (mut held, mut has) = (held.clone(), has.clone());
        if has[who] == 2 {
            self.forks(who).into_iter().for_each(|fork| held[fork] = None);
            has[who] = 0;
        } else {
            held[self.forks(who)[has[who] as usize]] = Some(who);
            has[who] += 1;
        }
        (held, has)
    }
    fn normal(&self, _: &mut Table) {}
    fn stuck(&self, _: &Table, actions: &[usize]) -> bool {
        actions.is_empty()
    }
}

#[test]
fn a_deadlock_is_found_by_the_shortest_way() {
    let search = Search { deadlock: true, ..Search::nothing() };
    let Err(deadlock) = explore(&Philosophers { n: 4, mended: false }, &search) else {
        panic!("this machine has a deadlock");
    };
    assert_eq!((deadlock.what, deadlock.actions.len()), ("deadlock", 4));
    let found = explore(&Philosophers { n: 4, mended: true }, &search);
    assert!(found.is_ok_and(|found| found.states > 10));
}

#[test]
fn weak_fairness_lets_a_philosopher_starve_whose_fork_is_free_now_and_then() {
    let philosophers = Philosophers { n: 3, mended: true };
    let marks = |(_, has): &Table| u64::from(has[0] != 2);
    let kind = |_: &Table, who: &usize| (0, *who as u8);
    let search = Search { marks: &marks, kind: Some(&kind), ..Search::nothing() };
    let Ok(found) = explore(&philosophers, &search) else { panic!("the search has no aims") };
    // The neighbours take turns: the fork is free again and again, but not all the time.
    let set = found.for_ever(0, 1, &|_| true).expect("starvation");
    let round = found.round(&philosophers, &set, 1, &|_| true);
    assert!(round.len() > 2, "{round:?}");
    // Without fairness the machine may stop.
    assert!(found.for_ever(0, 1, &|_| false).is_some());
}

/// A counter from 1 to 5; a fair bell resets it to 0.
struct Clock;

impl Machine for Clock {
    type State = u8;
    type Action = bool;
    fn initial(&self) -> u8 {
        1
    }
    fn actions(&self, _: &u8) -> Vec<bool> {
        vec![false, true]
    }
    fn step(&self, at: &u8, &rings: &bool) -> u8 {
        if rings { 0 } else { (at % 5) + 1 }
    }
    fn normal(&self, _: &mut u8) {}
    fn stuck(&self, _: &u8, _: &[bool]) -> bool {
        false
    }
}

#[test]
fn a_fair_action_that_stays_possible_is_taken() {
    let marks = |at: &u8| u64::from(*at != 0);
    let kind = |_: &u8, rings: &bool| (0, if *rings { 1 } else { UNFAIR });
    let search = Search { marks: &marks, kind: Some(&kind), ..Search::nothing() };
    let Ok(found) = explore(&Clock, &search) else { panic!("the search has no aims") };
    assert_eq!((found.states, found.steps, found.depth), (6, 12, 4));
    assert!(found.for_ever(0, 1, &|_| true).is_none());
    assert!(found.for_ever(0, 1, &|_| false).is_some());
}

#[test]
fn different_states_have_different_keys() {
    assert_ne!(key(&(vec![1usize, 2], vec![3usize])), key(&(vec![1usize], vec![2usize, 3])));
    assert_ne!(key(&Some(0usize)), key(&None::<usize>));
    assert_ne!(key(&254usize), key(&255usize));
    assert_ne!(key(&-1i64), key(&255i64));
}
