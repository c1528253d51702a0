//! The configuration of nginx, 1.18 or newer.

use crate::configuration::cli::Part;
use crate::web_server::site::{Files, Site, Way};

/// The fields by which other proxies report a request. nginx passes a client's own on, and the application would believe them.
const FIELDS: &str = r#"
    # Behind another port than 80 and 443: $host:$server_port.
    proxy_set_header Host $host;
    # Behind another proxy: $proxy_add_x_forwarded_for, and --trusted-proxies of cabrank names it.
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    # A client's own values of these fields do not count.
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-Port $server_port;
    proxy_set_header X-Forwarded-Prefix "";
    proxy_set_header X-Forwarded-Ssl "";
    proxy_set_header X-Forwarded-Scheme "";
    proxy_set_header X-Url-Scheme "";
    proxy_set_header Front-End-Https "";
    proxy_set_header Forwarded "";
"#;

const VARIABLES: &str = r"
    scgi_param SCGI 1;
    scgi_param REQUEST_METHOD $request_method;
    scgi_param REQUEST_URI $request_uri;
    scgi_param SERVER_PROTOCOL $server_protocol;
    scgi_param CONTENT_TYPE $content_type;
    scgi_param REQUEST_SCHEME $scheme;
    scgi_param HTTPS $https if_not_empty;
    scgi_param REMOTE_ADDR $remote_addr;
    scgi_param REMOTE_PORT $remote_port;
    scgi_param SERVER_ADDR $server_addr;
    scgi_param SERVER_PORT $server_port;
    # The host of an absolute target counts before this one, so $http_host, which keeps the port, is safe here.
    scgi_param HTTP_HOST $http_host;
";

/// Bodies are limited by cabrank. nginx looks at the length in each location that a request passes.
const BODIES: &str = r"    # cabrank limits bodies (--max-body), and waits for a client that is slow.
    client_max_body_size 0;
";

pub(super) fn text(site: &Site, part: Part) -> String {
    let head = site.head("nginx", "nginx");
    match part {
        Part::Whole => format!(
            "{head}# Paste it where the block http includes files, such as /etc/nginx/conf.d/, and name host, port and certificate.\n\
             # For several applications on one host: --part inside prints what the block server includes, and --part outside the rest.\n\n\
             {}server {{\n  listen 80;\n  server_name {}.example;\n\n{}}}\n",
            outside(site),
            site.name,
            inside(site)
        ),
        Part::Inside => format!(
            "{head}# Let the block server of the host include it. What --part outside prints stands beside that block.\n\n{}",
            inside(site)
        ),
        Part::Outside => format!(
            "{head}# Paste it where the block http includes files, such as /etc/nginx/conf.d/. What --part inside prints stands in the block server.\n\n{}",
            outside(site).trim_end_matches('\n').to_owned() + "\n"
        ),
    }
}

/// Returns the blocks that stand beside the block `server`.
fn outside(site: &Site) -> String {
    match &site.way {
        Way::Scgi(_) => String::new(),
        Way::Unix(path) => upstream(&site.name, &format!("unix:{path}")),
        Way::Tcp(address) => upstream(&site.name, &address.to_string()),
    }
}

/// Returns the blocks inside the block `server`.
fn inside(site: &Site) -> String {
    let name = &site.name;
    let inner = match &site.way {
        Way::Scgi(path) => scgi(path),
        Way::Unix(_) | Way::Tcp(_) => http(name),
    };
    let base = site.base_uri.replace('.', "\\.");
    let Some(Files::In(dir)) = &site.files else {
        let location = if base.is_empty() { "/".to_owned() } else { format!("~ ^{base}(/|$)") };
        return format!("  location {location} {{\n{BODIES}{inner}  }}\n");
    };
    let (location, file) = match &*base {
        "" => ("/".to_owned(), "$uri"),
        // The files are below the directory as they are below the path.
        base => (format!("~ ^{base}(/.*)?$"), "$1"),
    };
    format!(
        "  location {location} {{\n    root {dir};\n    try_files {file} @cabrank_{name};\n{BODIES}  }}\n\n  \
         location @cabrank_{name} {{\n{BODIES}{inner}  }}\n"
    )
}

fn upstream(name: &str, server: &str) -> String {
    format!(
        "upstream cabrank_{name} {{\n  server {server};\n  keepalive 32;\n}}\n\n\
         # Only a request for an upgrade, as of a WebSocket, has the header Connection.\n\
         map $http_upgrade $cabrank_{name}_connection {{\n  default upgrade;\n  '' '';\n}}\n\n"
    )
}

fn http(name: &str) -> String {
    let fields = FIELDS.trim_start_matches('\n');
    format!(
        "    proxy_pass http://cabrank_{name};\n    proxy_http_version 1.1;\n{fields}    \
         proxy_set_header Upgrade $http_upgrade;\n    proxy_set_header Connection $cabrank_{name}_connection;\n    \
         # cabrank keeps bodies and answers for slow clients. So an event stream arrives as it is made.\n    \
         proxy_request_buffering off;\n    proxy_buffering off;\n    \
         # The limits are those of cabrank, such as --max-request-time.\n    \
         proxy_read_timeout 1d;\n    proxy_send_timeout 1d;\n"
    )
}

fn scgi(path: &str) -> String {
    let variables = VARIABLES.trim_start_matches('\n');
    format!(
        "    scgi_pass unix:{path};\n{variables}    \
         # cabrank keeps bodies and answers for slow clients. So an event stream arrives as it is made. nginx buffers a chunked body all the same.\n    \
         scgi_request_buffering off;\n    scgi_buffering off;\n    \
         # The limits are those of cabrank, such as --max-request-time.\n    \
         scgi_read_timeout 1d;\n    scgi_send_timeout 1d;\n"
    )
}
