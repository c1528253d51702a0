//! `cabrank config`: the configuration of a web server in front, for the options that the server has.
//!
//! Each module writes one web server's text. `examples/` has texts that a test compares with them.

mod apache;
mod nginx;
mod site;
#[cfg(test)]
mod tests;

use crate::configuration::Configuration;
use crate::configuration::cli::{ConfigArgs, WebServer};
use crate::failure::Failure;
use site::Site;
use std::io::Write;

/// Prints the configuration.
pub(crate) fn print(args: &ConfigArgs) -> Result<(), Failure> {
    let text = text(args, &Configuration::load(&args.start)?)?;
    // A pipe whose reader has left needs no text.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn text(args: &ConfigArgs, configuration: &Configuration) -> Result<String, Failure> {
    let site = Site::of(configuration)?;
    Ok(match args.web_server {
        WebServer::Nginx => nginx::text(&site, args.part),
        WebServer::Apache => apache::text(&site, args.part),
    })
}
