//! Random numbers from a seed, and seeds from the environment.

/// Xorshift: a seed gives the same sequence on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // Neighbouring seeds should not begin alike.
        for _ in 0..8 {
            random.next();
        }
        random
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next()).expect("48 bits") % n
    }
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub(crate) fn of<'a, T>(&mut self, choice: &'a [T]) -> &'a T {
        &choice[self.below(choice.len())]
    }
}

/// Runs as many seeds as `CABRANK_STRESS_SEEDS` says, from `CABRANK_STRESS` on.
pub(crate) fn for_each_seed(seeds: u64, run: impl Fn(u64)) {
    use std::io::Write;
    let number = |name: &str, otherwise: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => otherwise,
    };
    let first = number("CABRANK_STRESS", 1);
    for seed in first..first + number("CABRANK_STRESS_SEEDS", seeds) {
        // Written past the test's capture: a broken invariant aborts before that is shown.
        let _ = writeln!(std::io::stderr(), "stress: seed {seed}");
        run(seed);
    }
}
