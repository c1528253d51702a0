//! One spawner starts the processes of several applications, each by the name of its group.
//!
//! The test has no harness, because helper processes run its binary.

use cabrank::application_pool::{GetError, SpawnError};
use cabrank::{ApplicationPool, PoolOptions};
use cabrank_spawner::app_type::Search;
use cabrank_spawner::{BootError, Helper, Options, Pool, Supervisor};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // First of all: helper processes run this binary, too.
    let helper = cabrank_spawner::helper();
    tokio::runtime::Runtime::new()?.block_on(run(helper))
}

async fn run(helper: Helper) -> Result<(), Box<dyn Error + Send + Sync>> {
    let roots = [tempfile::tempdir()?, tempfile::tempdir()?];
    let mut applications = Vec::new();
    for (root, command) in roots.iter().zip(["echo first; exit 3", "echo second; exit 4"]) {
        let search = Search { start_command: Some(command), ..Search::default() };
        applications.push(Options::new(search.find(root.path())?));
    }
    let names = applications.iter().map(|options| options.group_name.clone());
    let groups: Vec<_> =
        names.map(|name| PoolOptions::new("/").with_app_group_name(name)).collect();

    let runtime = tokio::runtime::Handle::current();
    let supervisor = Supervisor::start(helper, "applications", None, 1, runtime)?;
    let spawner = supervisor.spawner(applications)?;
    let link = spawner.link();
    let pool = ApplicationPool::builder(spawner).max(2).build()?;
    link.set(&pool);

    for (group, (output, status)) in groups.iter().zip([("first", "3"), ("second", "4")]) {
        let error = failure(&pool, group).await?;
        let boot = error.cause().downcast_ref::<BootError>().ok_or("an error of the boot")?;
        assert_eq!(boot.output.trim_end(), output);
        assert!(boot.summary.contains(&format!("exit status: {status}")), "{boot}");
    }
    let unknown = failure(&pool, &PoolOptions::new("/srv/unknown")).await?;
    assert_eq!(
        unknown.cause().to_string(),
        "the spawner has no application for the group /srv/unknown."
    );

    tokio::task::spawn_blocking(move || pool.close()).await?;
    supervisor.all_gone().await;
    println!("each group has its application");
    Ok(())
}

/// Returns the error of a spawn that fails.
async fn failure(
    pool: &Pool,
    group: &PoolOptions,
) -> Result<SpawnError, Box<dyn Error + Send + Sync>> {
    match pool.get_async(group).await.map(drop) {
        Err(GetError::Spawn(spawn)) => Ok(spawn),
        other => Err(format!("{other:?}").into()),
    }
}
