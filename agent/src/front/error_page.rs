//! The error page for a request without an answer from the application.
//!
//! It is HTML, plain text or JSON, as the client accepts. In development the page shows the output of an
//! application that does not boot. In production and staging it shows no details.

use super::response_body::ResponseBody;
use crate::app::boot_error::BootError;
use crate::chain::Chain;
use cabrank::application_pool::GetError;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

/// The reason why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The pool returned an error.
    Get(GetError),
    /// The process did not answer.
    NoAnswer(String),
    /// The agent refuses the request.
    Refused(StatusCode, String),
}

/// The content of the page.
struct Content {
    status: StatusCode,
    title: &'static str,
    text: String,
    /// The application's own output, and whether it is HTML.
    details: Option<(String, bool)>,
}

/// Returns the response for a client that sent these headers.
pub(crate) fn respond(
    trouble: &Trouble,
    request: &HeaderMap,
    with_details: bool,
) -> Response<ResponseBody> {
    let content = content(trouble, with_details);
    let (media_type, body) = match Form::accepted(request) {
        Form::Html => ("text/html; charset=utf-8", html(&content)),
        Form::Json => ("application/json", json(&content)),
        Form::Text => ("text/plain; charset=utf-8", text(&content)),
    };
    let mut response = Response::new(ResponseBody::from(body));
    *response.status_mut() = content.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match trouble {
        Trouble::Get(GetError::Closed) => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        _ if content.status == StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}

fn content(trouble: &Trouble, with_details: bool) -> Content {
    let page =
        |status, title, text: &str| Content { status, title, text: text.into(), details: None };
    match trouble {
        Trouble::Get(GetError::Spawn(error)) => {
            let title = "The application could not be started";
            let mut content = page(
                StatusCode::INTERNAL_SERVER_ERROR,
                title,
                "The application failed while it was starting. The server's log has the details.",
            );
            if with_details {
                match error.cause().downcast_ref::<BootError>() {
                    Some(boot) => {
                        content.text = sentence(&boot.summary);
                        content.details = Some((boot.details(), boot.html));
                    }
                    None => content.text = sentence(&Chain(error).to_string()),
                }
            }
            content
        }
        Trouble::Get(GetError::QueueFull { .. }) => page(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many requests are waiting",
            "Please try again in a moment.",
        ),
        Trouble::Get(GetError::Closed) => page(
            StatusCode::SERVICE_UNAVAILABLE,
            "The server is shutting down",
            "Please try again in a moment.",
        ),
        Trouble::Get(error) => {
            tracing::error!("the pool returned no process for a request: {}", Chain(error));
            page(
                StatusCode::SERVICE_UNAVAILABLE,
                "The application cannot be reached",
                "Please try again in a moment.",
            )
        }
        Trouble::NoAnswer(why) => {
            let mut content = page(
                StatusCode::BAD_GATEWAY,
                "The application did not answer",
                "A process of the application gave no complete answer. The server's log has the details.",
            );
            if with_details {
                content.details = Some((why.clone(), false));
            }
            content
        }
        Trouble::Refused(status, why) => {
            page(*status, status.canonical_reason().unwrap_or("Refused"), &sentence(why))
        }
    }
}

/// Makes an error message a sentence: with a capital letter and a full stop.
fn sentence(message: &str) -> String {
    let mut rest = message.trim_end_matches('.').chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

enum Form {
    Html,
    Json,
    Text,
}

impl Form {
    /// Returns the first of the three that the client names, else plain text: clients like curl take any.
    fn accepted(request: &HeaderMap) -> Form {
        let accept = request.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
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
}

fn html(content: &Content) -> String {
    let details = match &content.details {
        Some((details, true)) => details.clone(),
        Some((details, false)) if !details.is_empty() => {
            format!("<pre>{}</pre>", escape(details))
        }
        _ => String::new(),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{status} {title}</title>\n<style>\
         body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem}}\
         pre{{background:#f4f4f4;color:#222;padding:1rem;overflow-x:auto;font-size:14px}}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n<p>{text}</p>\n{details}\n</body>\n</html>\n",
        status = content.status.as_u16(),
        title = escape(content.title),
        text = escape(&content.text),
    )
}

fn text(content: &Content) -> String {
    let mut out = format!("{} {}\n\n{}\n", content.status.as_u16(), content.title, content.text);
    if let Some((details, _)) = &content.details
        && !details.is_empty()
    {
        out.push('\n');
        out.push_str(details);
        out.push('\n');
    }
    out
}

fn json(content: &Content) -> String {
    let mut value = serde_json::json!({
        "status": content.status.as_u16(),
        "error": content.title,
        "message": content.text,
    });
    if let Some((details, _)) = &content.details {
        value["details"] = details.as_str().into();
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

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank::application_pool::SpawnError;
    use hyper::body::Body;

    fn boot_failure(message: &str) -> Trouble {
        let mut error = BootError::plain("the application failed to boot.");
        error.message = message.into();
        Trouble::Get(GetError::Spawn(SpawnError::new(error)))
    }

    fn page(trouble: &Trouble, accept: &'static str, details: bool) -> (StatusCode, String) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let response = respond(trouble, &headers, details);
        assert!(!response.body().is_end_stream());
        let status = response.status();
        let ResponseBody::Whole(Some(bytes)) = response.into_body() else { panic!() };
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn the_applications_output_is_escaped() {
        let trouble = boot_failure("<script>alert('x')</script> & \"more\"");
        let (status, html) = page(&trouble, "text/html,*/*;q=0.8", true);
        assert_eq!(status, 500);
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more"));
        assert!(!html.contains("<script"));
    }

    #[test]
    fn messages_become_sentences() {
        assert_eq!(sentence("the limit is 5 bytes"), "The limit is 5 bytes.");
        assert_eq!(sentence("It failed."), "It failed.");
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn production_shows_no_details() {
        for accept in ["text/html", "application/json", "*/*"] {
            let (_, page) = page(&boot_failure("SECRET_KEY=1"), accept, false);
            assert!(!page.contains("SECRET") && page.contains("could not be started"), "{page}");
        }
    }

    #[test]
    fn each_client_gets_the_format_it_accepts() {
        let trouble = boot_failure("why");
        assert!(page(&trouble, "*/*", true).1.starts_with("500 The application"));
        assert!(page(&trouble, "text/html", true).1.starts_with("<!DOCTYPE html>"));
        let (_, json) = page(&trouble, "application/json", true);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((json["status"].as_u64(), json["details"].as_str()), (Some(500), Some("why")));
    }

    #[test]
    fn a_full_queue_asks_the_client_to_retry() {
        let trouble = Trouble::Get(GetError::QueueFull { max_queue: 1 });
        let response = respond(&trouble, &HeaderMap::new(), false);
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        let response = respond(&Trouble::Get(GetError::Closed), &HeaderMap::new(), false);
        assert_eq!(response.headers()[header::CONNECTION], "close");
    }
}
