//! The lists against oracles of the standard library: a deque for `List`, a sorted vector for `RankList`.
//!
//! `benches/lists/` compares `List` with `intrusive_collections::LinkedList`, which needs unsafe code.

use crate::kernel::collections::arena::{Arena, Key};
use crate::kernel::collections::list::{Links, List, linked};
use crate::kernel::collections::rank_list::RankList;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Elements {}

#[derive(Debug, Default)]
struct Element {
    one: Links<Elements>,
    other: Links<Elements>,
}
linked!(
    /// The list under test.
    Tested: Elements, Element, one
);
linked!(
    /// A second list of the same elements.
    Other: Elements, Element, other
);

#[derive(Clone, Debug)]
enum Op {
    PushFront,
    PushBack,
    PopFront,
    Remove(prop::sample::Index),
    MoveToFront(prop::sample::Index),
    MoveToBack(prop::sample::Index),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let index = any::<prop::sample::Index>;
    let op = prop_oneof![
        3 => Just(Op::PushFront),
        3 => Just(Op::PushBack),
        1 => Just(Op::PopFront),
        2 => index().prop_map(Op::Remove),
        2 => index().prop_map(Op::MoveToFront),
        2 => index().prop_map(Op::MoveToBack),
    ];
    prop::collection::vec(op, 0..200)
}

proptest! {
    #[test]
    fn the_list_behaves_as_its_oracle(ops in ops()) {
        let mut arena: Arena<Element, Elements> = Arena::new();
        let (mut list, mut second) = (List::<Tested>::new(), List::<Other>::new());
        let mut oracle: VecDeque<Key<Elements>> = VecDeque::new();
        let mut in_order_of_creation: Vec<Key<Elements>> = Vec::new();
        for op in ops {
            let pick = |index: prop::sample::Index| {
                (!oracle.is_empty()).then(|| index.index(oracle.len()))
            };
            match op {
                Op::PushFront | Op::PushBack => {
                    let key = arena.insert(Element::default());
                    second.push_back(&mut arena, key);
                    in_order_of_creation.push(key);
                    if matches!(op, Op::PushFront) {
                        list.push_front(&mut arena, key);
                        oracle.push_front(key);
                    } else {
                        list.push_back(&mut arena, key);
                        oracle.push_back(key);
                    }
                }
                Op::PopFront => {
                    let expected = oracle.pop_front();
                    prop_assert_eq!(list.pop_front(&mut arena), expected);
                    if let Some(key) = expected {
                        second.remove(&mut arena, key);
                        arena.remove(key);
                        in_order_of_creation.retain(|k| *k != key);
                    }
                }
                Op::Remove(index) => {
                    let Some(key) = pick(index).and_then(|at| oracle.remove(at)) else { continue };
                    list.remove(&mut arena, key);
                    second.remove(&mut arena, key);
                    arena.remove(key);
                    in_order_of_creation.retain(|k| *k != key);
                }
                Op::MoveToFront(index) => {
                    let Some(key) = pick(index).and_then(|at| oracle.remove(at)) else { continue };
                    list.remove(&mut arena, key);
                    list.push_front(&mut arena, key);
                    oracle.push_front(key);
                }
                Op::MoveToBack(index) => {
                    let Some(key) = pick(index).and_then(|at| oracle.remove(at)) else { continue };
                    list.remove(&mut arena, key);
                    list.push_back(&mut arena, key);
                    oracle.push_back(key);
                }
            }
            prop_assert_eq!(list.iter(&arena).collect::<VecDeque<_>>(), oracle.clone());
            prop_assert_eq!(list.len(), oracle.len());
            // The second list of the same elements is independent of the first.
            prop_assert_eq!(second.iter(&arena).collect::<Vec<_>>(), in_order_of_creation.clone());
        }
    }

    #[test]
    fn the_rank_list_behaves_as_a_sorted_vector(
        ops in prop::collection::vec((0..3u8, prop_oneof![0..5usize, 60..70usize, 0..300_000usize], any::<prop::sample::Index>()), 0..100)
    ) {
        let mut arena: Arena<Element, Elements> = Arena::new();
        let mut ranked = RankList::<Tested>::default();
        let mut oracle: Vec<(usize, Key<Elements>)> = Vec::new();
        for (op, rank, index) in ops {
            let clamped = rank.min(crate::kernel::collections::rank_list::MAX_RANK);
            if op < 2 {
                let key = arena.insert(Element::default());
                if op == 0 {
                    ranked.push_front(&mut arena, key, rank);
                    let at = oracle.partition_point(|(r, _)| *r < clamped);
                    oracle.insert(at, (clamped, key));
                } else {
                    ranked.push_back(&mut arena, key, rank);
                    let at = oracle.partition_point(|(r, _)| *r <= clamped);
                    oracle.insert(at, (clamped, key));
                }
            } else if !oracle.is_empty() {
                let (rank, key) = oracle.remove(index.index(oracle.len()));
                ranked.remove(&mut arena, key, rank);
                arena.remove(key);
            }
            prop_assert_eq!(ranked.len(), oracle.len());
            prop_assert_eq!(ranked.first(), oracle.first().map(|(_, key)| *key));
            for rank in [0, 3, 65] {
                let last = oracle.iter().rfind(|(of, _)| *of == rank);
                prop_assert_eq!(ranked.last_of(rank), last.map(|(_, key)| *key));
            }
            let highest = oracle.last().map(|(rank, _)| *rank);
            let expected = oracle.iter().find(|(rank, _)| Some(*rank) == highest);
            prop_assert_eq!(ranked.first_of_highest(), expected.map(|(_, key)| *key));
        }
        prop_assert_eq!(ranked.iter(&arena).collect::<Vec<_>>(), oracle);
    }
}
