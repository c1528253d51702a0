//! The formats of error pages: HTML, plain text and JSON.

use crate::exchange::error_page::content::Content;
use crate::request::head::Head;

/// The formats of pages.
pub(crate) enum Form {
    Html,
    Json,
    Text,
}

impl Form {
    /// Returns the first of the three that the client names, else plain text: clients like curl take any.
    pub(crate) fn accepted(request: &Head) -> Form {
        let accept = request.fields().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        let accept = accept.filter_map(|(_, value)| std::str::from_utf8(value).ok());
        for range in accept.flat_map(|v| v.split(',')) {
            let media_type = range.split(';').next().unwrap_or_default().trim();
            match media_type.to_ascii_lowercase().as_str() {
                "text/html" | "application/xhtml+xml" => return Form::Html,
                "application/json" => return Form::Json,
                t if t.ends_with("+json") => return Form::Json,
                "text/plain" => return Form::Text,
                _ => {}
            }
        }
        Form::Text
    }

    /// Returns the type and the text of a page.
    pub(crate) fn write(&self, content: &Content) -> (&'static str, String) {
        match self {
            Form::Html => ("text/html; charset=utf-8", html(content)),
            Form::Json => ("application/json", json(content)),
            Form::Text => ("text/plain; charset=utf-8", text(content)),
        }
    }
}

/// Writes the page without scripts. Every text in it is escaped.
fn html(content: &Content) -> String {
    let details = match content.details.as_deref() {
        None | Some("") => String::new(),
        Some(details) => format!("<pre>{}</pre>\n", escape(details)),
    };
    let facts: String = content
        .facts
        .iter()
        .map(|(name, text)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text)))
        .collect();
    let facts = if facts.is_empty() { facts } else { format!("<dl>\n{facts}</dl>\n") };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{status} {title}</title>\n<style>\
         body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem}}\
         pre{{background:#f4f4f4;color:#222;padding:1rem;overflow-x:auto;font-size:14px}}\
         dt{{font-weight:600}}dd{{margin:0 0 .75rem;overflow-wrap:anywhere}}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n<p>{text}</p>\n{details}{facts}</body>\n</html>\n",
        status = content.status,
        title = escape(content.title),
        text = escape(&content.text),
    )
}

fn text(content: &Content) -> String {
    let mut out = format!("{} {}\n\n{}\n", content.status, content.title, content.text);
    if let Some(details) = &content.details
        && !details.is_empty()
    {
        out.push_str(&format!("\n{details}\n"));
    }
    for (n, (name, text)) in content.facts.iter().enumerate() {
        out.push_str(&format!("{}{name}: {text}\n", if n == 0 { "\n" } else { "" }));
    }
    out
}

fn json(content: &Content) -> String {
    let mut value = serde_json::json!({
        "status": content.status,
        "error": content.title,
        "message": content.text,
    });
    if let Some(details) = &content.details {
        value["details"] = details.as_str().into();
    }
    for (name, text) in &content.facts {
        value[name.to_lowercase().replace(' ', "_")] = text.as_str().into();
    }
    format!("{value}\n")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
