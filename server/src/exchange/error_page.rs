//! The error page for a request without an answer from the application.
//!
//! It is HTML, plain text or JSON, as the client accepts. For an application that does not boot, the page in development
//! shows its output, the place of the error, advice, and the command. In production and staging the page has no details.

mod content;
mod format;

use crate::client::status::reason;
use crate::exchange::end::Refusal;
use crate::request::head::Head;
use cabrank::application_pool::GetError;
use cabrank_spawner::BootError;
use cabrank_spawner::chain::Chain;
use content::Content;
use format::Form;

/// An error page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// When the client may try again, in seconds.
    retry_after: Option<&'static str>,
}

impl Page {
    /// Returns the header fields beside the type.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &'static str)> {
        let retry = self.retry_after.map(|seconds| ("retry-after", seconds));
        [("cache-control", "no-store")].into_iter().chain(retry).collect()
    }
}

/// Returns the page for a client that sent this head.
pub(crate) fn page(refusal: &Refusal, request: &Head, with_details: bool) -> Page {
    let content = content(refusal, with_details);
    let (content_type, body) = Form::accepted(request).write(&content);
    let retry_after = match refusal {
        Refusal::NoProcess(GetError::Closed) => Some("5"),
        _ if content.status == 503 => Some("1"),
        _ => None,
    };
    Page { status: content.status, content_type, body, retry_after }
}

fn content(refusal: &Refusal, with_details: bool) -> Content {
    let page = |status, title, text: &str| Content {
        status,
        title,
        text: text.into(),
        details: None,
        facts: Vec::new(),
    };
    match refusal {
        Refusal::NoProcess(GetError::Spawn(error)) => {
            let title = "The application could not be started";
            let mut content = page(
                500,
                title,
                "The application failed while it was starting. The server's log has the details.",
            );
            if with_details {
                match error.cause().downcast_ref::<BootError>() {
                    Some(boot) => {
                        content.text = sentence(&boot.summary);
                        content.details = Some(boot.details());
                        content.facts = boot.facts();
                    }
                    None => content.text = sentence(&Chain(error).to_string()),
                }
            }
            content
        }
        Refusal::NoProcess(GetError::QueueFull { .. }) => {
            page(503, "Too many requests are waiting", "Please try again in a moment.")
        }
        Refusal::NoProcess(GetError::QueuedTooLong) => {
            page(503, "No process was free in time", "Please try again in a moment.")
        }
        Refusal::NoProcess(GetError::Closed) => {
            page(503, "The server is shutting down", "Please try again in a moment.")
        }
        Refusal::NoProcess(error) => {
            tracing::error!("the pool returned no process for a request: {}", Chain(error));
            page(503, "The application cannot be reached", "Please try again in a moment.")
        }
        Refusal::NoAnswer { why, .. } => {
            let mut content = page(
                502,
                "The application did not answer",
                "A process of the application gave no complete answer. The server's log has the details.",
            );
            if with_details {
                content.details = Some(why.clone());
            }
            content
        }
        Refusal::TooLong => page(
            504,
            "The application took too long",
            "The request exceeded the time that the server allows. The server's log has the details.",
        ),
        Refusal::NoSpace => {
            page(503, "The server has no space for the request", "Please try again in a moment.")
        }
        Refusal::Request(status, why) | Refusal::Stream(status, why) => {
            let title = match reason(*status) {
                "" => "Refused",
                reason => reason,
            };
            page(*status, title, &sentence(why))
        }
    }
}

/// Makes an error message a sentence: with a capital letter and a full stop.
fn sentence(message: &str) -> String {
    let mut rest = message.trim_end_matches('.').chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http1::parse::parsed;
    use cabrank::application_pool::SpawnError;

    fn boot_failure(message: &str) -> Refusal {
        let mut error = BootError::plain("the application failed to boot.");
        error.message = message.into();
        Refusal::NoProcess(GetError::Spawn(SpawnError::new(error)))
    }

    fn head(accept: &str) -> Head {
        parsed(&format!("GET / HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n")).0
    }

    fn page(refusal: &Refusal, accept: &'static str, details: bool) -> (u16, String) {
        let page = super::page(refusal, &head(accept), details);
        (page.status, page.body)
    }

    #[test]
    fn the_applications_output_is_escaped() {
        let mut error = BootError::plain("<i>it</i> failed.");
        error.message = "<script>alert('x')</script> & \"more\"".into();
        error.html = true;
        error.output = "<b>".into();
        let refusal = Refusal::NoProcess(GetError::Spawn(SpawnError::new(error)));
        let (status, html) = page(&refusal, "text/html,*/*;q=0.8", true);
        assert_eq!(status, 500);
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more"));
        for tag in ["<script", "<i>", "<b>"] {
            assert!(!html.contains(tag), "{html}");
        }
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
        let refusal = boot_failure("why");
        assert!(page(&refusal, "*/*", true).1.starts_with("500 The application"));
        assert!(page(&refusal, "text/html", true).1.starts_with("<!DOCTYPE html>"));
        let (_, json) = page(&refusal, "application/json", true);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((json["status"].as_u64(), json["details"].as_str()), (Some(500), Some("why")));
    }

    #[test]
    fn a_full_queue_asks_the_client_to_retry() {
        for error in [GetError::QueueFull { max_queue: 1 }, GetError::QueuedTooLong] {
            let page = super::page(&Refusal::NoProcess(error), &head("*/*"), false);
            assert_eq!(page.status, 503);
            assert!(page.fields().contains(&("retry-after", "1")));
        }
    }
}
