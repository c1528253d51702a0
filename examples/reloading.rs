//! A template that is loaded when it is first needed, and reloaded when its file has changed, while
//! two threads use it: `cargo run --example reloading`.
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
        .unload(move |alone| {
            println!("         the template is unloaded");
            unloaded.clear(alone);
            Ok(())
        })
        .build()?;

    let turns = Arc::new(Barrier::new(3));
    let workers = ["Ann", "Bob"].map(|name| {
        let (reloader, template) = (reloader.clone(), template.clone());
        let (turns, file) = (turns.clone(), file.clone());
        thread::spawn(move || {
            for _ in 0..3 {
                match reloader.wrap(|execution| {
                    let running = execution.running().ok_or("the executor has no interlock")?;
                    let template = template.get_or_load(running, || load(&file))?;
                    Ok(template.replace("{}", name))
                }) {
                    Ok(greeting) => println!("{greeting}"),
                    Err(error) => println!("{name} was not greeted: {error}"),
                }
                turns.wait(); // the file is changed, once both have read it
                turns.wait();
            }
        })
    });
    for edited in [Some("Good morning, {}."), Some("Good night, {}."), None] {
        turns.wait();
        edited.map_or(Ok(()), |text| fs::write(&file, text))?;
        turns.wait();
    }
    let ended = workers.map(|worker| worker.join());
    fs::remove_file(file)?;
    ended.into_iter().try_for_each(|ended| ended.map_err(|_| "a worker has panicked".into()))
}

fn load(file: &Path) -> Result<String, std::io::Error> {
    println!("         the template is loaded");
    fs::read_to_string(file)
}
