//! `cabrank`: serves web applications through the cabrank application pool.

fn main() -> std::process::ExitCode {
    cabrank_server::run()
}
