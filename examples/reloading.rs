//! Two threads use a template that is reloaded when its file changes: `cargo run --example reloading`.
//!
//! The first execution that needs the template loads it. Every execution first checks the file. After a
//! change, one execution unloads the template while no other runs, and the next use loads it again.

use cabrank::execution::interlock::Loaded;
use cabrank::execution::{BoxError, Executor, Interlock, Reloader};
use std::path::Path;
use std::sync::Arc;
use std::{env, fs, process, thread};

const TEXTS: [&str; 3] = ["Hello, {}.", "Good morning, {}.", "Good night, {}."];

fn main() -> Result<(), BoxError> {
    let file = env::temp_dir().join(format!("cabrank-reloading-{}.txt", process::id()));
    fs::write(&file, TEXTS[0])?;

    let template = Arc::new(Loaded::<String>::new());
    let unloaded = template.clone();
    let reloader = Reloader::builder(Executor::builder().interlock(Interlock::new()).build())
        .watch_files([&file])
        .unload(move |unloading| {
            println!("         unloading the template");
            unloaded.clear(unloading);
            Ok(())
        })
        .build()?;

    for text in TEXTS {
        if fs::read_to_string(&file)? != text {
            fs::write(&file, text)?;
        }
        thread::scope(|scope| {
            for name in ["Ann", "Bob"] {
                let (reloader, template, file) = (&reloader, &template, &file);
                scope.spawn(move || {
                    let greeting = reloader.wrap(|execution| {
                        let running = execution.running().ok_or("the executor has no interlock")?;
                        let template = template.get_or_load(running, || load(file))?;
                        Ok(template.replace("{}", name))
                    });
                    match greeting {
                        Ok(greeting) => println!("{greeting}"),
                        Err(error) => println!("cannot greet {name}: {error}"),
                    }
                });
            }
        });
    }
    fs::remove_file(file)?;
    Ok(())
}

fn load(file: &Path) -> Result<String, BoxError> {
    println!("         loading the template");
    Ok(fs::read_to_string(file)?)
}
