//! Searches an explored space for broken liveness properties.
//!
//! A liveness property depends on the actions that may go on for ever, and on *weak fairness*. Weak
//! fairness means that a fair action that stays possible is taken in the end. A counterexample is a strongly
//! connected component in which the promise is outstanding everywhere, and every fair action is either taken
//! or impossible somewhere. If a maximal component is no counterexample, no part of it is one. A single
//! state without a possible fair action is a counterexample, too.

use crate::checking::machine::{Machine, UNFAIR};
use crate::checking::search::Explored;
use std::collections::{HashMap, HashSet, VecDeque};

impl<A: Clone> Explored<A> {
    fn edges_of(&self, state: usize) -> &[(u8, u8, u32)] {
        let (from, to) = (self.first_edge[state], self.first_edge[state + 1]);
        &self.edges[from as usize..to as usize]
    }

    /// Returns a set of states in which a promise can stay outstanding for ever. `bit` marks the states in which
    /// it is outstanding. The state that the search reached first comes first.
    ///
    /// Only actions of the kinds in `may` go on for ever. Actions of a class for which `fair` holds are
    /// taken if they stay possible.
    pub fn for_ever(&self, bit: u8, may: u64, fair: &dyn Fn(u8) -> bool) -> Option<Vec<usize>> {
        let marked = |state: usize| self.marks[state] & (1 << bit) != 0;
        let goes_on = |edge: &(u8, u8, u32)| may & (1 << edge.0) != 0 && marked(edge.2 as usize);
        let classes = |state: usize| {
            let of_edges = self.edges_of(state).iter().map(|edge| edge.1);
            of_edges.filter(|&class| class != UNFAIR && fair(class)).fold(0u128, |s, c| s | 1 << c)
        };
        for component in self.components(&marked, &goes_on) {
            let inside: HashSet<usize> = component.iter().copied().collect();
            let (mut always, mut taken) = (u128::MAX, 0u128);
            for &state in &component {
                always &= classes(state);
                for edge in self.edges_of(state).iter().filter(|edge| goes_on(edge)) {
                    if edge.1 != UNFAIR && inside.contains(&(edge.2 as usize)) {
                        taken |= 1 << edge.1;
                    }
                }
            }
            // This also holds for a single state without a possible fair action.
            if always & !taken == 0 {
                let mut component = component;
                component.sort_unstable();
                return Some(component);
            }
        }
        None
    }

    /// Returns the way to the first state of such a set.
    pub fn stem(&self, set: &[usize]) -> Vec<A> {
        self.way_to(set[0])
    }

    /// Returns a cycle in such a set, from its first state, on which every fair action is taken or
    /// impossible somewhere. It is empty if no action goes on.
    pub fn round<M: Machine<Action = A>>(
        &self,
        machine: &M,
        set: &[usize],
        may: u64,
        fair: &dyn Fn(u8) -> bool,
    ) -> Vec<A> {
        let inside: HashSet<usize> = set.iter().copied().collect();
        let goes_on =
            |edge: &(u8, u8, u32)| may & (1 << edge.0) != 0 && inside.contains(&(edge.2 as usize));
        let is_possible =
            |state: usize, class: u8| self.edges_of(state).iter().any(|edge| edge.1 == class);
        // An edge is a state and the index of the action in the machine's list.
        let mut way: Vec<(usize, usize)> = Vec::new();
        let mut at = set[0];
        // For each fair class: extends the path until it takes an action of the class, or reaches a state where none is
        // possible.
        for class in (0..UNFAIR).filter(|&class| fair(class)) {
            let taken = |&(state, place): &(usize, usize)| self.edges_of(state)[place].1 == class;
            let somewhere_impossible = |way: &[(usize, usize)], at: usize| {
                !is_possible(at, class) || way.iter().any(|&(state, _)| !is_possible(state, class))
            };
            if way.iter().any(taken) || somewhere_impossible(&way, at) {
                continue;
            }
            let due = |state: usize, place: usize| {
                let edge = self.edges_of(state)[place];
                edge.1 == class || !is_possible(edge.2 as usize, class)
            };
            let Some(part) = self.shortest(at, &goes_on, &due) else { continue };
            at = part.last().map_or(at, |&(state, place)| self.edges_of(state)[place].2 as usize);
            way.extend(part);
        }
        let back = |state: usize, place: usize| self.edges_of(state)[place].2 as usize == set[0];
        if at != set[0] || way.is_empty() {
            way.extend(self.shortest(at, &goes_on, &back).unwrap_or_default());
        }
        let mut state = machine.initial();
        machine.normal(&mut state);
        let mut follow = |action: &A| {
            state = machine.step(&state, action);
            machine.normal(&mut state);
            machine.actions(&state)
        };
        let mut actions = machine.actions(&machine.initial());
        for action in self.stem(set) {
            actions = follow(&action);
        }
        let mut round = Vec::new();
        for (_, place) in way {
            let action = actions[place].clone();
            actions = follow(&action);
            round.push(action);
        }
        round
    }

    /// Returns the shortest way from a state to an edge that `last` accepts.
    fn shortest(
        &self,
        from: usize,
        goes_on: &dyn Fn(&(u8, u8, u32)) -> bool,
        last: &dyn Fn(usize, usize) -> bool,
    ) -> Option<Vec<(usize, usize)>> {
        let mut came: HashMap<usize, (usize, usize)> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(state) = queue.pop_front() {
            for (place, edge) in self.edges_of(state).iter().enumerate() {
                if !goes_on(edge) {
                    continue;
                }
                let to = edge.2 as usize;
                if last(state, place) {
                    let mut way = vec![(state, place)];
                    let mut at = state;
                    while at != from {
                        let step = came[&at];
                        way.push(step);
                        at = step.0;
                    }
                    way.reverse();
                    return Some(way);
                }
                if to != from && !came.contains_key(&to) {
                    came.insert(to, (state, place));
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// Returns the strongly connected components, by Tarjan's algorithm without recursion.
    fn components(
        &self,
        marked: &dyn Fn(usize) -> bool,
        goes_on: &dyn Fn(&(u8, u8, u32)) -> bool,
    ) -> Vec<Vec<usize>> {
        const UNSEEN: u32 = u32::MAX;
        let (mut index, mut low) = (vec![UNSEEN; self.states], vec![0u32; self.states]);
        let mut on_stack = vec![false; self.states];
        let (mut stack, mut found, mut next) = (vec![], vec![], 0);
        for root in (0..self.states).filter(|&state| marked(state)) {
            if index[root] != UNSEEN {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some((state, at)) = work.pop() {
                if at == 0 {
                    (index[state], low[state]) = (next, next);
                    next += 1;
                    stack.push(state);
                    on_stack[state] = true;
                }
                if let Some(edge) = self.edges_of(state).get(at) {
                    work.push((state, at + 1));
                    let to = edge.2 as usize;
                    if !goes_on(edge) {
                    } else if index[to] == UNSEEN {
                        work.push((to, 0));
                    } else if on_stack[to] {
                        low[state] = low[state].min(index[to]);
                    }
                    continue;
                }
                if low[state] == index[state] {
                    let mut component = vec![];
                    while let Some(member) = stack.pop() {
                        on_stack[member] = false;
                        component.push(member);
                        if member == state {
                            break;
                        }
                    }
                    found.push(component);
                }
                if let Some(&(parent, _)) = work.last() {
                    low[parent] = low[parent].min(low[state]);
                }
            }
        }
        found
    }
}
