//! A loader of somebody else's: forty lines of Perl, written for Passenger's handshake, without knowledge of this crate.
//!
//! The test has no harness, because helper processes run its binary.

use cabrank::{ApplicationPool, PoolOptions};
use cabrank_spawner::app_type::{CustomType, Search};
use cabrank_spawner::stream::AppStream;
use cabrank_spawner::{BootError, Helper, Options, Pool, Supervisor, kept};
use std::error::Error;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NAME: &str = "foreign_loader";

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // First of all: helper processes run this binary, too.
    let helper = cabrank_spawner::helper();
    // As a test harness does, so that `cargo xtask test` can leave this test out where Perl is missing.
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--list") {
        println!("{NAME}: test");
        return Ok(());
    }
    if args.windows(2).any(|pair| pair == ["--skip", NAME]) {
        println!("{NAME} is left out");
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(run(helper))
}

async fn run(helper: Helper) -> Result<(), Box<dyn Error + Send + Sync>> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let dir = tempfile::tempdir()?;
    for file in ["loader.pl", "app.pl"] {
        std::fs::copy(files.join(file), dir.path().join(file))?;
    }
    let perl = CustomType {
        name: "perl".into(),
        startup_file: "app.pl".into(),
        loader: "loader.pl".into(),
        interpreter: Some("perl".into()),
        ..CustomType::default()
    };
    perl.check(dir.path()).map_err(|invalid| invalid.problem)?;
    let app = Search { custom_types: &[perl], ..Search::default() }.find(dir.path())?;
    let options = PoolOptions::new(&app.root);
    let runtime = tokio::runtime::Handle::current();
    let supervisor = Supervisor::start(helper, "foreign", None, 1, runtime)?;
    let pool = start(&supervisor, app.clone())?;

    for n in 0..20 {
        let body = format!("{n} requests");
        let answer = request(&pool, &options, "POST", &body, None).await?;
        let reversed: String = body.chars().rev().collect();
        assert!(answer.starts_with("Status: 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\nPOST /orders: {reversed}")), "{answer}");
    }
    assert_eq!(request(&pool, &options, "PING", "", None).await?, "pong");
    let refused = request(&pool, &options, "GET", "", Some("a guess")).await?;
    assert!(refused.starts_with("Status: 403"), "{refused}");
    // The loader leaves by itself when it is asked to, and its socket's file goes.
    let backends = supervisor.instance().generation().join("backends");
    close(&supervisor, pool).await?;
    // A thread removes the file after the end of the process.
    while std::fs::read_dir(&backends)?.count() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }

    std::fs::write(dir.path().join("app.pl"), "die 'no database'")?;
    let pool = start(&supervisor, app)?;
    let failed = pool.get_async(&options).await.map(drop).expect_err("a broken application");
    let cabrank::application_pool::GetError::Spawn(spawn) = &failed else {
        return Err(failed.into());
    };
    let boot = spawn.cause().downcast_ref::<BootError>().ok_or("an error of the boot")?;
    assert!(boot.message.contains("The application is broken: no database"), "{boot}");
    assert!(boot.output.contains("The greeting comes after this line."), "{boot:?}");
    close(&supervisor, pool).await?;
    println!("the foreign loader works");
    Ok(())
}

fn start(
    supervisor: &Supervisor,
    app: cabrank_spawner::App,
) -> Result<Pool, Box<dyn Error + Send + Sync>> {
    let spawner = supervisor.spawner([Options::new(app)])?;
    let link = spawner.link();
    let pool = ApplicationPool::builder(spawner).max(2).build()?;
    link.set(&pool);
    Ok(pool)
}

async fn close(supervisor: &Supervisor, pool: Pool) -> Result<(), Box<dyn Error + Send + Sync>> {
    tokio::task::spawn_blocking(move || pool.close()).await?;
    supervisor.all_gone().await;
    Ok(())
}

/// Sends one request in the plain session protocol. Returns the whole answer.
async fn request(
    pool: &Pool,
    options: &PoolOptions,
    method: &str,
    body: &str,
    password: Option<&str>,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut session = pool.get_async(options).await?;
    let opened = session.opened.take().ok_or("the loader does not speak the session protocol")?;
    let process = &session.process;
    let mut stream = AppStream::finish(opened, &process.endpoint.address).await?;
    let mut head = Vec::new();
    let pairs = [
        ("REQUEST_METHOD", method),
        ("PATH_INFO", "/orders"),
        ("QUERY_STRING", ""),
        ("CONTENT_LENGTH", &body.len().to_string()),
        ("PASSENGER_CONNECT_PASSWORD", password.unwrap_or(&process.password)),
    ];
    kept::push_head(&mut head, &pairs);
    stream.write_all(&head).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.end_output()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
