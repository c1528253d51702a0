//! The configuration of Apache, 2.4.47 or newer: older ones need `mod_proxy_wstunnel` for WebSockets.

use crate::configuration::cli::Part;
use crate::web_server::site::{Files, Site, Way};

const FIELDS: &str = r"  ProxyPreserveHost On
  # A client's own values of these fields do not count.
  RequestHeader unset X-Forwarded-For early
  RequestHeader unset X-Forwarded-Host early
  RequestHeader unset X-Forwarded-Server early
  RequestHeader unset X-Forwarded-Port early
  RequestHeader unset X-Forwarded-Prefix early
  RequestHeader unset X-Forwarded-Ssl early
  RequestHeader unset X-Forwarded-Scheme early
  RequestHeader unset X-Url-Scheme early
  RequestHeader unset Front-End-Https early
  RequestHeader unset Forwarded early
  RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}
";

pub(super) fn text(site: &Site, part: Part) -> String {
    let head = site.head("Apache", "apache");
    if part == Part::Outside {
        return head + "# Apache needs nothing outside of <VirtualHost>.\n";
    }
    let (modules, fields, about) = match site.way {
        Way::Scgi(_) => (
            "proxy proxy_scgi",
            "",
            "  # WebSockets do not pass over SCGI: use --socket for them.\n",
        ),
        Way::Unix(_) | Way::Tcp(_) => ("proxy proxy_http headers", FIELDS, ""),
    };
    let (files, more) = match &site.files {
        Some(Files::In(dir)) => files(dir, &site.base_uri),
        _ => (String::new(), ""),
    };
    let (name, base) = (&site.name, &site.base_uri);
    let from = if base.is_empty() { "/" } else { base };
    // A host must be there, and does not count over a socket.
    let to = match &site.way {
        Way::Tcp(address) => format!("http://{address}{from}"),
        Way::Unix(path) => format!("unix:{path}|http://{name}.example{from}"),
        Way::Scgi(path) => format!("unix:{path}|scgi://{name}.example{from}"),
    };
    let options = match site.way {
        // A kept connection of another request could be closed by the server at the same moment.
        Way::Tcp(_) | Way::Unix(_) => {
            "nocanon upgrade=websocket flushpackets=on timeout=86400 ttl=30"
        }
        Way::Scgi(_) => "nocanon flushpackets=on timeout=86400",
    };
    let inside = format!(
        "  ProxyRequests Off\n  # The path reaches the application as the client has written it.\n  \
         AllowEncodedSlashes NoDecode\n{files}{fields}{about}  \
         # cabrank has the limits on bodies and times, such as --max-body.\n  LimitRequestBody 0\n  \
         ProxyPass \"{from}\" \"{to}\" {options}\n"
    );
    let modules = format!("It needs `a2enmod {modules}{more}`.");
    match part {
        Part::Inside => format!(
            "{head}# Let <VirtualHost> of the host include it: a longer path before a shorter one. {modules}\n\n{inside}"
        ),
        _ => format!(
            "{head}# Put it into a file of /etc/apache2/sites-available/, and name host, port and certificate. {modules}\n\
             # For several applications on one host: --part inside prints what <VirtualHost> includes.\n\n\
             <VirtualHost *:80>\n  ServerName {name}.example\n{inside}</VirtualHost>\n"
        ),
    }
}

/// Returns the lines by which Apache serves the files of a directory, and the modules for them.
fn files(dir: &str, base: &str) -> (String, &'static str) {
    let (place, more) = match base {
        "" => (format!("DocumentRoot {dir}"), " setenvif"),
        base => (format!("Alias \"{base}\" {dir}"), " setenvif alias"),
    };
    let path = dir.trim_matches('"');
    let text = format!(
        "  # ProxyPass leaves a request alone whose path is that of a file.\n  {place}\n  \
         <Directory {dir}>\n    Require all granted\n  </Directory>\n  \
         SetEnvIfExpr \"%{{REQUEST_URI}} =~ m#^{}(/.*)$# && -f '{path}'.unescape('$1')\" no-proxy\n",
        base.replace('.', "\\.")
    );
    (text, more)
}
