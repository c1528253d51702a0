//! The cost of removing a random element of a list and pushing it to the front: the library's lists beside
//! intrusive-collections.
//!
//! `cargo bench` in this folder prints nanoseconds for each such pair, at 10, 10,000 and 1,000,000 elements, and
//! the ratio to the library's list. The contenders take turns in short rounds; medians are compared.
//!
//! - `list`: the library's. Links are keys inside the entry; the caller names an element by its key.
//! - `pointers`: intrusive-collections at its best. The elements lie in one allocation that never moves; the caller
//!   names an element by its address, which is unsafe.
//! - `pointers, by key`: intrusive-collections as a pool would use it. A slab of `Rc`s turns a key into an
//!   address. The elements must not lie in the slab itself, which moves them when it grows.

mod kernel;

use intrusive_collections::{LinkedList, LinkedListLink, UnsafeRef, intrusive_adapter};
use kernel::collections::arena::{Arena, Key};
use kernel::collections::list::{Links, List, linked};
use slab::Slab;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

/// An entry carries this besides its links: together about a cache line.
type Payload = [u64; 5];

#[derive(Debug)]
pub(crate) enum Elements {}

#[derive(Default)]
struct Element {
    links: Links<Elements>,
    _payload: Payload,
}
linked!(
    /// The library's list.
    Measured: Elements, Element, links
);

#[derive(Default)]
struct Node {
    link: LinkedListLink,
    _payload: Payload,
}
intrusive_adapter!(InPlace = UnsafeRef<Node>: Node { link => LinkedListLink });
intrusive_adapter!(Counted = Rc<Node>: Node { link => LinkedListLink });

/// A list of elements. The arena of a new list gives the `nth` element the `nth` key.
trait Lists {
    fn move_to_front(&mut self, nth: usize);
}

struct ArenaList {
    arena: Arena<Element, Elements>,
    list: List<Measured>,
}

impl ArenaList {
    fn new(n: usize) -> Self {
        let (mut arena, mut list) = (Arena::new(), List::new());
        for _ in 0..n {
            let key = arena.insert(Element::default());
            list.push_back(&mut arena, key);
        }
        ArenaList { arena, list }
    }
}

impl Lists for ArenaList {
    fn move_to_front(&mut self, nth: usize) {
        let key = Key::new(nth);
        self.list.remove(&mut self.arena, key);
        self.list.push_front(&mut self.arena, key);
    }
}

struct Pointers {
    list: LinkedList<InPlace>,
    // Dropped after the list that points into them.
    nodes: Box<[Node]>,
}

impl Pointers {
    fn new(n: usize) -> Self {
        let nodes: Box<[Node]> = (0..n).map(|_| Node::default()).collect();
        let mut list = LinkedList::new(InPlace::new());
        for node in &nodes {
            // SAFETY: the nodes neither move nor go before the list.
            list.push_back(unsafe { UnsafeRef::from_raw(node) });
        }
        Pointers { list, nodes }
    }
}

impl Lists for Pointers {
    fn move_to_front(&mut self, nth: usize) {
        // SAFETY: each of the nodes is in this list.
        let node = unsafe { self.list.cursor_mut_from_ptr(&self.nodes[nth]) }.remove();
        self.list.push_front(node.expect("the cursor is at the element"));
    }
}

struct PointersByKey {
    list: LinkedList<Counted>,
    slab: Slab<Rc<Node>>,
}

impl PointersByKey {
    fn new(n: usize) -> Self {
        let (mut slab, mut list) = (Slab::with_capacity(n), LinkedList::new(Counted::new()));
        for _ in 0..n {
            let node = Rc::new(Node::default());
            list.push_back(node.clone());
            slab.insert(node);
        }
        PointersByKey { list, slab }
    }
}

impl Lists for PointersByKey {
    fn move_to_front(&mut self, nth: usize) {
        let node = Rc::as_ptr(&self.slab[nth]);
        // SAFETY: each of the nodes is in this list.
        let node = unsafe { self.list.cursor_mut_from_ptr(node) }.remove();
        self.list.push_front(node.expect("the cursor is at the element"));
    }
}

/// Random numbers (xorshift), the same for all.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * n) >> 32
    }
}

/// Nanoseconds for each pair of operations in one round.
fn round(lists: &mut impl Lists, n: usize, seed: u64, each: u32) -> f64 {
    let mut random = Random(seed);
    let begun = Instant::now();
    for _ in 0..each {
        lists.move_to_front(black_box(random.below(n)));
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(each)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    // CI runs each once, to see that it runs.
    let trial = std::env::args().any(|arg| arg == "--test");
    let (rounds, each) = if trial { (1, 100) } else { (101, 50_000) };
    println!("{:>9} {:>14} {:>20} {:>26}", "elements", "list", "pointers", "pointers, by key");
    for n in [10, 10_000, 1_000_000] {
        let mut lists = (ArenaList::new(n), Pointers::new(n), PointersByKey::new(n));
        let mut times = [const { Vec::new() }; 3];
        for nth in 0..rounds {
            let seed = 0x9e37_79b9_7f4a_7c15 + nth;
            times[0].push(round(&mut lists.0, n, seed, each));
            times[1].push(round(&mut lists.1, n, seed, each));
            times[2].push(round(&mut lists.2, n, seed, each));
        }
        let [own, best, by_key] = times.map(median);
        let (ratio, by_key_ratio) = (best / own, by_key / own);
        println!(
            "{n:>9} {own:>11.1} ns {best:>11.1} ns ({ratio:.2}) {by_key:>17.1} ns ({by_key_ratio:.2})"
        );
    }
}
