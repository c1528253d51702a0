//! A pool of workers for jobs, without HTTP: each job is a line, and so is its result.
//!
//! ```text
//! cargo run -p cabrank-spawner --example workers -- 6 28 496 1000000
//! ```
//!
//! Three Python processes share the jobs. `worker.py` performs the handshake, and then does one job a connection.

use cabrank::{ApplicationPool, PoolOptions};
use cabrank_spawner::app_type::{Interpreter, Launch, Loader};
use cabrank_spawner::stream::AppStream;
use cabrank_spawner::{App, Helper, Options, Pool, Supervisor};
use std::error::Error;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

static LOADER: Loader = Loader {
    files: &[("worker.py", include_str!("worker.py"))],
    preloader: None,
    interpreter: Interpreter::Python,
};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // First of all: helper processes run this binary, too.
    let helper = cabrank_spawner::helper();
    tokio::runtime::Runtime::new()?.block_on(run(helper))
}

async fn run(helper: Helper) -> Result<(), Box<dyn Error + Send + Sync>> {
    let root = std::env::current_dir()?;
    let options = PoolOptions::new(&root);
    let app = App {
        root,
        type_name: "worker".into(),
        description: "a worker for jobs".into(),
        title: "Worker".into(),
        environment_variables: &[],
        has_threads: false,
        launch: Launch::Loader { loader: &LOADER, startup_file: "worker.py".into(), script: None },
        remark: None,
        is_named_by_script: false,
    };
    let supervisor =
        Supervisor::start(helper, "workers", None, 1, tokio::runtime::Handle::current())?;
    let spawner = supervisor.spawner([Options::new(app)])?;
    let link = spawner.link();
    let pool = ApplicationPool::builder(spawner).max(3).build()?;
    link.set(&pool);

    let mut jobs = tokio::task::JoinSet::new();
    for job in std::env::args().skip(1) {
        let (pool, options) = (pool.clone(), options.clone());
        jobs.spawn(async move { work(&job, &pool, &options).await });
    }
    while let Some(result) = jobs.join_next().await {
        println!("{}", result??);
    }
    tokio::task::spawn_blocking(move || pool.close()).await?;
    supervisor.all_gone().await;
    Ok(())
}

async fn work(
    job: &str,
    pool: &Pool,
    options: &PoolOptions,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut session = pool.get_async(options).await?;
    let opened = session.opened.take().ok_or("the worker does not speak the session protocol")?;
    let stream = AppStream::finish(opened, &session.process.endpoint.address).await?;
    let mut stream = BufReader::new(stream);
    stream.write_all(format!("{job}\n").as_bytes()).await?;
    let mut result = String::new();
    if stream.read_line(&mut result).await? == 0 {
        return Err("the worker has ended".into());
    }
    Ok(format!("{job} (process {}): {}", session.process.pid, result.trim_end()))
}
