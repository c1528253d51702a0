//! A small web server that answers requests by a Python application.
//!
//! ```text
//! cargo run -p cabrank-spawner --example embedded -- examples/wsgi 4000
//! curl http://127.0.0.1:4000/
//! ```
//!
//! It knows GET only, and closes each connection. `server/` is the server that does the rest.

use cabrank::{ApplicationPool, PoolOptions};
use cabrank_spawner::kept::{self, Decoder, Part};
use cabrank_spawner::{Helper, Options, Pool, Supervisor, app_type};
use std::error::Error;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn Error>> {
    // First of all: helper processes run this binary, too.
    let helper = cabrank_spawner::helper();
    tokio::runtime::Runtime::new()?.block_on(run(helper))
}

async fn run(helper: Helper) -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: embedded DIRECTORY [PORT]")?;
    let port = arguments.next().map_or(Ok(4000), |port| port.parse())?;

    let app = app_type::find(&Path::new(&dir).canonicalize()?, None, None)?;
    let options = PoolOptions::new(&app.root);
    let supervisor =
        Supervisor::start(helper, "embedded", None, 1, tokio::runtime::Handle::current())?;
    let spawner = supervisor.spawner([Options::new(app)])?;
    let link = spawner.link();
    let pool = ApplicationPool::builder(spawner).max(2).build()?;
    link.set(&pool);

    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("serving {dir} at http://{}", listener.local_addr()?);
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = tokio::signal::ctrl_c() => break,
        };
        let (pool, options) = (pool.clone(), options.clone());
        tokio::spawn(async move {
            if let Err(e) = answer(client, &pool, &options).await {
                eprintln!("no answer: {e}");
            }
        });
    }
    tokio::task::spawn_blocking(move || pool.close()).await?;
    supervisor.all_gone().await;
    Ok(())
}

async fn answer(
    client: TcpStream,
    pool: &Pool,
    options: &PoolOptions,
) -> Result<(), Box<dyn Error>> {
    let mut client = BufReader::new(client);
    let mut lines = Vec::new();
    while client.read_until(b'\n', &mut lines).await? > 2 {}
    let head = String::from_utf8_lossy(&lines);
    let target = head.split(' ').nth(1).ok_or("no request line")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));

    let session = pool.get_async(options).await?;
    let process = &session.process;
    let mut request = Vec::new();
    kept::push_head(
        &mut request,
        &[
            ("REQUEST_METHOD", "GET"),
            ("PATH_INFO", path),
            ("QUERY_STRING", query),
            ("SERVER_NAME", "localhost"),
            ("SERVER_PORT", "4000"),
            ("SERVER_PROTOCOL", "HTTP/1.0"),
            ("PASSENGER_CONNECT_PASSWORD", &process.password),
        ],
    );
    request.extend_from_slice(&kept::END);
    let mut connection = process.connections.borrow(&process.endpoint, 0).await?;
    connection.stream().write_all(&request).await?;

    client.write_all(b"HTTP/1.0 ").await?;
    let (mut decoder, mut input) = (Decoder::default(), Vec::new());
    loop {
        let decoded = decoder.decode(&input)?;
        let consumed = decoded.consumed;
        match decoded.part {
            Part::Interim(_) => {}
            Part::Head(head) => {
                client.write_all(head.strip_prefix(b"Status: ").ok_or("no status")?).await?;
            }
            Part::Body(body) => client.write_all(body).await?,
            Part::End => break,
            Part::Abort => return Err("the application failed".into()),
            Part::Incomplete { .. } => {
                input.drain(..consumed);
                if connection.stream().read_buf(&mut input).await? == 0 {
                    return Err("the process has ended".into());
                }
                continue;
            }
        }
        input.drain(..consumed);
    }
    connection.keep();
    Ok(client.shutdown().await?)
}
