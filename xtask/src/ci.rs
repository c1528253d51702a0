//! Everything that must hold on main, step by step.
//!
//! `.ci/run` installs what the steps need, and calls this. The last lines say which step failed and how much disk
//! is left, because a log may be long, and only its end be kept.

use crate::common::{Outcome, say, shell};
use crate::prose;
use std::time::Instant;

/// Lines of bash under one name.
struct Step {
    name: &'static str,
    about: &'static str,
    /// Runs only in `ci deep`, or when named.
    is_deep: bool,
    lines: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", about: "format", is_deep: false, lines: "cargo fmt --all --check" },
    Step {
        name: "prose",
        about: "plain sentences, and no dangling reference",
        is_deep: false,
        lines: "cargo xtask prose || $PROSE_MAY_FAIL",
    },
    Step {
        name: "graph",
        about: "the cycles between modules are those of ARCHITECTURE.md",
        is_deep: false,
        lines: "cargo xtask graph --check",
    },
    Step {
        name: "test",
        about: "the README's test command",
        is_deep: false,
        lines: "
            timeout 1500 cargo xtask test
            timeout 600 cargo test -p cabrank-spec --features explore --test stateright",
    },
    Step {
        // Each history is one thread, so that two searches run side by side. They are the programs of the step before:
        // with `--test` cargo chooses other features, and builds all of them again.
        name: "refinement",
        about: "10,000 histories of each system beside its specification",
        is_deep: false,
        lines: "
            export CABRANK_CASES=${CABRANK_CASES:-10000}
            built=$(cargo test --workspace --no-run 2>&1)
            program() { sed -n \"s|.*Executable tests/$1/main.rs (\\(.*\\))|\\1|p\" <<<\"$built\"; }
            timeout 900 $(program application_pool) refinement &
            timeout 900 $(program execution) refinement
            timeout 900 $(program resource_pool) refinement
            wait $!",
    },
    Step {
        name: "loaders",
        about: "the server's loaders of Python, Ruby and Node applications",
        is_deep: false,
        lines: "
            greenlets=${CARGO_TARGET_DIR:-target}/greenlets
            [ -x $greenlets/bin/python ] || python3 -m venv $greenlets
            $greenlets/bin/pip install --quiet gevent eventlet uvloop websockets
            export CABRANK_GREENLETS=$(realpath --no-symlinks $greenlets/bin/python)
            timeout 300 python3 spawner/loaders/tests -p 'test_[a-q]*' &
            timeout 300 python3 spawner/loaders/tests -p 'test_[r-z]*'
            wait $!
            timeout 60 python3 spawner/loaders/conformance.py python3 spawner/loaders/python-loader.py &
            timeout 60 python3 spawner/loaders/conformance.py --app spawner/loaders/reference-rack --startup-file config.ru \
                ruby spawner/loaders/rack-loader.rb
            wait $!
            timeout 60 python3 spawner/loaders/conformance.py --app spawner/loaders/reference-asgi --startup-file asgi.py \
                python3 spawner/loaders/python-loader.py &
            timeout 60 python3 spawner/loaders/conformance.py --app spawner/loaders/reference-node --startup-file app.js \
                node spawner/loaders/node-loader.js
            wait $!",
    },
    Step {
        name: "loom",
        about: "every interleaving of every model",
        is_deep: false,
        lines: "timeout 1200 cargo xtask loom",
    },
    Step {
        name: "shuttle",
        about: "random schedules of every model",
        is_deep: false,
        lines: "CABRANK_SCHEDULES=${CABRANK_SCHEDULES:-10000} timeout 1200 cargo xtask shuttle",
    },
    Step {
        name: "faults",
        about: "no model passes by accident",
        is_deep: false,
        lines: "timeout 1200 cargo xtask faults",
    },
    Step {
        name: "clippy",
        about: "lints, each feature set",
        is_deep: false,
        lines: "
            cargo clippy --workspace --all-targets -- -D warnings
            cargo clippy -p cabrank-spec --all-targets --features explore -- -D warnings
            # The targets above turn in-memory and serde on. Without them, only the library is left.
            for features in '' in-memory serde tokio metrics tracing tokio,metrics,tracing backtrace; do
              cargo clippy -p cabrank --lib --features \"$features\" -- -D warnings
            done
            cargo clippy -p cabrank --lib --release -- -D warnings
            # The tools replace the scheduler in the library's own tests alone.
            for features in loom shuttle loom,shuttle; do
              cargo clippy -p cabrank --lib --profile test --features $features -- -D warnings
            done",
    },
    Step {
        name: "doc",
        about: "documentation",
        is_deep: false,
        lines: "
            export RUSTDOCFLAGS='-D warnings'
            cargo doc --workspace --no-deps
            cargo doc -p cabrank --no-deps --all-features",
    },
    Step {
        name: "light",
        about: "the library stays light: less than 16 lines of `cargo tree`",
        is_deep: false,
        lines: "
            lines=$(cargo tree -e normal -p cabrank | wc -l)
            echo \"cargo tree -e normal -p cabrank: $lines lines\"
            test $lines -lt 16",
    },
    Step {
        // The lock file has newer versions of what the library depends on: cargo chooses others for an older compiler.
        name: "msrv",
        about: "the library builds with the oldest compiler that it promises",
        is_deep: false,
        lines: "
            oldest=$(sed -n 's/^rust-version = \"\\(.*\\)\"/\\1/p' Cargo.toml | tail -1)
            compiler=/usr/bin/rustc
            if ! $compiler --version 2>/dev/null | grep -qF \"rustc $oldest\"; then
              DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rustc-web cargo-web >/dev/null 2>&1 || true
            fi
            if ! $compiler --version 2>/dev/null | grep -qF \"rustc $oldest\"; then
              echo \"skipped: there is no rustc $oldest, and no package of it\"
              exit
            fi
            copy=target/msrv/tree
            rm -rf $copy && mkdir -p $copy && cp -r src README.md $copy
            # Only what a user builds: the library without its workspace and tests.
            sed -e '/^\\[dev-dependencies\\]/,/^\\[/{/^\\[/!d}' -e '/^members/d' -e '/^\\[\\[example/,/^$/d' -e '/^\\[\\[test/,/^$/d' -e '/^\\[target/,/^$/d' Cargo.toml >$copy/Cargo.toml
            export CARGO_TARGET_DIR=$PWD/target/msrv RUSTC=$compiler
            (cd $copy && /usr/bin/cargo check --lib && /usr/bin/cargo check --lib --features in-memory,serde,backtrace,tokio,metrics,tracing)",
    },
    Step {
        // Built as the tests are, of which most is there already: that they run is the question here.
        name: "bench",
        about: "the benchmarks run",
        is_deep: false,
        lines: "
            cargo test -p cabrank-benches --benches -- --test
            (cd benches/lists && cargo fmt --check && cargo clippy --all-targets -- -D warnings && cargo test && cargo test --benches -- --test)
            cd benches/peers && cargo fmt --check && cargo clippy --all-targets -- -D warnings && cargo test --benches -- --test",
    },
    Step {
        name: "examples",
        about: "the examples run",
        is_deep: false,
        lines: "
            for example in threads tasks interlock reloading resources deferred; do
              cargo run --quiet -p cabrank --features in-memory --example $example
            done",
    },
    Step {
        name: "checks-pools",
        about: "both pools under crashes, cancels, resizes and clock jumps",
        is_deep: false,
        lines: "timeout 300 cargo xtask checks-pools 20",
    },
    Step {
        name: "databases",
        about: "pools of connections to real servers that are killed and restarted",
        is_deep: false,
        lines: "timeout 600 cargo test -p databases -- --nocapture",
    },
    Step {
        name: "compare",
        about: "the comparison with other servers runs, with those that are installed",
        is_deep: false,
        lines: "timeout 300 cargo xtask compare --quick",
    },
    Step {
        name: "checks-faults",
        about: "the server under the quick faults: no client fails, and nothing is left over",
        is_deep: false,
        lines: "timeout 600 cargo xtask checks-faults --quick",
    },
    Step {
        name: "checks-applications",
        about: "an application of Sinatra, Flask and Express, as their users would see it",
        is_deep: false,
        lines: "timeout 400 cargo xtask checks-applications --quick",
    },
    Step { name: "serve", about: "the README's first command", is_deep: false, lines: ".ci/serve" },
    Step {
        name: "shipped",
        about: "the library's tests, and the server's allocations, as users run them: optimised, without debug assertions",
        is_deep: false,
        lines: "
            timeout 1200 cargo test -p cabrank --profile shipped --lib --tests
            timeout 900 cargo build -p cabrank-server --profile shipped
            export CABRANK_TESTED=$(realpath ${CARGO_TARGET_DIR:-target})/shipped/cabrank
            e2e=$(cargo test --workspace --no-run 2>&1 | sed -n 's|.*Executable tests/e2e/main.rs (\\(.*\\))|\\1|p')
            timeout 300 $(realpath $e2e) costs::a_request_takes_few_allocations",
    },
    Step {
        // By name: whatever else is ignored some day gets its own place.
        name: "pools",
        about: "the larger pools of the specification",
        is_deep: true,
        lines: "timeout 1200 cargo test -p cabrank-spec --test exploration -- --ignored",
    },
    Step {
        name: "fuzz",
        about: "a minute of each fuzz target: the parsers of the server",
        is_deep: true,
        lines: "
            if ! command -v c++ >/dev/null; then
              apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq g++ >/dev/null
            fi
            (cd server/fuzz && cargo fmt --check)
            timeout 1500 server/fuzz/run",
    },
    Step {
        name: "preload",
        about: "memory and spawn time with a preloader: the measurement runs",
        is_deep: true,
        lines: "timeout 900 cargo xtask preload",
    },
    Step {
        name: "tla",
        about: "the TLA+ module by another checker, which is installed under target/",
        is_deep: true,
        lines: "timeout 2400 cargo test -p cabrank-spec --test tla -- --ignored",
    },
    Step {
        name: "tsan",
        about: "the library's tests under ThreadSanitizer",
        is_deep: true,
        lines: "
            if ! rustup run nightly rustc --version; then
              echo 'skipped: there is no nightly toolchain'
              exit
            fi
            export CARGO_TARGET_DIR=$PWD/target/tsan CABRANK_CASES=${CABRANK_CASES:-200}
            export RUSTFLAGS=-Zsanitizer=thread
            # A forked child starts threads (tests/fork.rs).
            export TSAN_OPTIONS=die_after_fork=0
            std=-Zbuild-std
            if ! rustup component add rust-src --toolchain nightly 2>/dev/null; then
              echo 'std itself is not instrumented: its sources are missing'
              std= RUSTFLAGS=\"$RUSTFLAGS -Cunsafe-allow-abi-mismatch=sanitizer\"
            fi
            host=$(rustc -vV | sed -n 's/^host: //p')
            timeout 2400 cargo +nightly test $std --target $host -p cabrank --lib --tests",
    },
];

/// Runs the steps named; without names, those that every change must pass; all, if it is `deep`.
pub(crate) fn run(args: &[String]) -> Outcome {
    if args.iter().any(|arg| arg == "--list") {
        for Step { name, about, is_deep, .. } in STEPS {
            say(&format!("{name:<11} {about}{}", if *is_deep { " (deep)" } else { "" }));
        }
        return Ok(());
    }
    let names: Vec<&str> = args.iter().map(String::as_str).filter(|name| *name != "deep").collect();
    if let Some(name) = names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        return Err(format!("there is no step {name}: cargo xtask ci --list"));
    }
    let all = names.len() < args.len();
    let chosen = |step: &&Step| match names.is_empty() {
        true => all || !step.is_deep,
        false => names.contains(&step.name),
    };
    let prose = if prose::FAILS_CI { "false" } else { "true" };
    let begun = Instant::now();
    let mut took = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        let step_begun = Instant::now();
        println!("\n=== {}: {} ({} s)", step.name, step.about, begun.elapsed().as_secs());
        let lines = step.lines.replace("$PROSE_MAY_FAIL", prose);
        if let Err(how) = shell(&lines, &[]) {
            println!("\nNOT green: \"{}\" {how} after {} s", step.name, begun.elapsed().as_secs());
            let _ = shell("df -h . | tail -1", &[]);
            return Err(format!("cargo xtask ci {} repeats this step", step.name));
        }
        took.push(format!("{} {} s", step.name, step_begun.elapsed().as_secs()));
    }
    println!("\n{}", took.join(", "));
    println!("all green after {} s", begun.elapsed().as_secs());
    Ok(())
}
