//! Two threads share a template that is reloaded when its file changes: `cargo run --example reloading`.
//!
//! The first execution that needs the template loads it. Each execution checks the file first; after a
//! change, one of them unloads the template, and the next use loads it again.

use cabrank::execution::interlock::Loaded;
use cabrank::execution::{BoxError, Executor, Interlock, Reloader};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::{env, fs, process, thread};

fn main() -> Result<(), BoxError> {
    let file = env::temp_dir().join(format!("cabrank-reloading-{}.txt", process::id()));
    fs::write(&file, "Hello, {}.")?;

    let template = Arc::new(Loaded::<String>::new());
    let executor = Executor::builder()
        .interlock(Interlock::new())
        .reporter(|report| println!("{} reports: {}", report.source(), report.error()))
        .build();
    let (watched, unloaded) = (file.clone(), template.clone());
    let reloader = Reloader::builder(executor)
        .watch(move || fs::read_to_string(&watched).ok())
        .unload(move |unloading| {
            println!("         unloading the template");
            unloaded.clear(unloading);
            Ok(())
        })
        .build()?;

    // Two workers and the editor below meet twice per round: before and after the edit.
    let turns = Arc::new(Barrier::new(3));
    let workers = ["Ann", "Bob"].map(|name| {
        let (reloader, template) = (reloader.clone(), template.clone());
        let (turns, file) = (turns.clone(), file.clone());
        thread::spawn(move || {
            for _ in 0..3 {
                let greeting = reloader.wrap(|execution| {
                    let running = execution.running().ok_or("the executor has no interlock")?;
                    let template = template.get_or_load(running, || load(&file))?;
                    Ok(template.replace("{}", name))
                });
                match greeting {
                    Ok(greeting) => println!("{greeting}"),
                    Err(error) => println!("cannot greet {name}: {error}"),
                }
                turns.wait(); // both have used the template: the editor changes the file
                turns.wait();
            }
        })
    });
    for edited in [Some("Good morning, {}."), Some("Good night, {}."), None] {
        turns.wait();
        edited.map_or(Ok(()), |text| fs::write(&file, text))?;
        turns.wait();
    }
    let results = workers.map(|worker| worker.join());
    fs::remove_file(file)?;
    results.into_iter().try_for_each(|result| result.map_err(|_| "a worker panicked".into()))
}

fn load(file: &Path) -> Result<String, std::io::Error> {
    println!("         loading the template");
    fs::read_to_string(file)
}
