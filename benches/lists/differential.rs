//! The library's `List` and an `intrusive_collections::LinkedList` behave alike.
//!
//! Both lists hold the same elements and do the same random operations. After each one they agree on length, both
//! ends, and the order in both directions. The library's own oracle tests (`src/kernel/collections/list_tests.rs`)
//! compare with the standard library's collections.

mod kernel;

use intrusive_collections::{LinkedList, LinkedListLink, intrusive_adapter};
use kernel::collections::arena::{Arena, Key};
use kernel::collections::list::{Links, List, linked};
use proptest::prelude::*;

#[derive(Debug)]
pub(crate) enum Elements {}

#[derive(Default)]
struct Element {
    links: Links<Elements>,
}
linked!(
    /// The list under test.
    Tested: Elements, Element, links
);

/// The oracle's element, which carries the key of the same element in the arena.
struct Node {
    link: LinkedListLink,
    key: Key<Elements>,
}
intrusive_adapter!(NodeAdapter = Box<Node>: Node { link => LinkedListLink });

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
    prop::collection::vec(op, 0..300)
}

/// Both lists, and the address of each node by its element's key.
#[derive(Default)]
struct SideBySide {
    arena: Arena<Element, Elements>,
    list: List<Tested>,
    oracle: LinkedList<NodeAdapter>,
    nodes: Vec<(Key<Elements>, *const Node)>,
}

impl SideBySide {
    /// A new element, which is in neither list yet.
    fn new_element(&mut self) -> (Key<Elements>, Box<Node>) {
        let key = self.arena.insert(Element::default());
        let node = Box::new(Node { link: LinkedListLink::new(), key });
        self.nodes.push((key, &raw const *node));
        (key, node)
    }
    fn forget_element(&mut self, key: Key<Elements>) {
        self.arena.remove(key);
        self.nodes.retain(|(other, _)| *other != key);
    }
    /// Removes an element that the index picks, from both lists.
    fn remove(&mut self, index: prop::sample::Index) -> Option<(Key<Elements>, Box<Node>)> {
        let (key, node) = *self.nodes.get(index.index(self.nodes.len().max(1)))?;
        self.list.remove(&mut self.arena, key);
        // SAFETY: `nodes` holds the nodes of this list's elements only.
        let node = unsafe { self.oracle.cursor_mut_from_ptr(node) }.remove();
        Some((key, node.expect("the cursor is at the element")))
    }
    fn push_front(&mut self, (key, node): (Key<Elements>, Box<Node>)) {
        self.list.push_front(&mut self.arena, key);
        self.oracle.push_front(node);
    }
    fn push_back(&mut self, (key, node): (Key<Elements>, Box<Node>)) {
        self.list.push_back(&mut self.arena, key);
        self.oracle.push_back(node);
    }
    fn apply(&mut self, op: Op) {
        match op {
            Op::PushFront => {
                let element = self.new_element();
                self.push_front(element);
            }
            Op::PushBack => {
                let element = self.new_element();
                self.push_back(element);
            }
            Op::PopFront => {
                let key = self.list.pop_front(&mut self.arena);
                let node = self.oracle.pop_front();
                assert_eq!(key, node.map(|node| node.key));
                if let Some(key) = key {
                    self.forget_element(key);
                }
            }
            Op::Remove(index) => {
                if let Some((key, _)) = self.remove(index) {
                    self.forget_element(key);
                }
            }
            Op::MoveToFront(index) => {
                if let Some(element) = self.remove(index) {
                    self.push_front(element);
                }
            }
            Op::MoveToBack(index) => {
                if let Some(element) = self.remove(index) {
                    self.push_back(element);
                }
            }
        }
    }
    fn compare(&self) {
        let forwards: Vec<Key<Elements>> = self.oracle.iter().map(|node| node.key).collect();
        assert_eq!(self.list.iter(&self.arena).collect::<Vec<_>>(), forwards);
        let before = |key: &Key<Elements>| List::<Tested>::before(&self.arena, *key);
        let backwards = std::iter::successors(self.list.back(), before);
        assert!(backwards.eq(forwards.iter().rev().copied()), "backwards: not {forwards:?}");
        assert_eq!(self.list.len(), forwards.len());
        assert_eq!(self.list.is_empty(), self.oracle.is_empty());
        assert_eq!(self.list.front(), forwards.first().copied());
        for (key, element) in self.arena.iter() {
            let listed = forwards.contains(&key);
            assert_eq!(element.links.is_linked(), listed, "element {key:?}");
        }
    }
}

proptest! {
    #[test]
    fn the_lists_behave_alike(ops in ops()) {
        let mut lists = SideBySide::default();
        for op in ops {
            lists.apply(op);
            lists.compare();
        }
    }
}
