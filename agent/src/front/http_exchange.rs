//! One request to a process that speaks HTTP itself, over a persistent connection.

use super::headers::{asks_for_upgrade, has_token, remove_hop_by_hop};
use super::response_body::{HttpBody, ResponseBody};
use super::{Failed, Inbound, Peer, Reached};
use crate::app::Session;
use crate::chain::Chain;
use crate::http::BoxError;
use crate::http::upload::Upload;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Sends the request to the session's process, and returns the answer once its head has arrived.
///
/// With `only_new`, the request does not use an idle connection. `upgrade` yields the client's connection
/// if both sides agree on another protocol. Tunnels end when `closing` becomes true.
pub(crate) async fn exchange(
    session: Session,
    request: &Inbound,
    only_new: bool,
    upgrade: &mut Option<OnUpgrade>,
    closing: &watch::Receiver<bool>,
) -> Result<Response<ResponseBody>, Failed> {
    let failed =
        |session, reached, why: String| Err(Failed { session: Some(session), why, reached });
    let process = &session.process;
    let mut connection = match process.connections.borrow(&process.endpoint, only_new).await {
        Ok(connection) => connection,
        Err(e) => return Err(Failed::to_connect(session, &e)),
    };
    let upgrading = upgrade.is_some() && asks_for_upgrade(&request.parts.headers);
    let response = match connection.sender().try_send_request(outbound(request, upgrading)).await {
        Ok(response) => response,
        Err(mut e) => {
            let reached =
                if e.take_message().is_some() { Reached::NotTheApp } else { Reached::TheApp };
            let e = e.into_error();
            let reached =
                if e.is_parse() { Reached::Verdict(StatusCode::BAD_GATEWAY) } else { reached };
            return failed(session, reached, Chain(&e).to_string());
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let client = upgrade.take().filter(|_| upgrading);
        return match client {
            Some(client) => {
                connection.detach();
                Ok(tunnel(session, response, client, closing.clone()))
            }
            None => {
                let verdict = Reached::Verdict(StatusCode::BAD_GATEWAY);
                failed(
                    session,
                    verdict,
                    "the application upgraded a connection without a request for it".into(),
                )
            }
        };
    }
    let (mut parts, incoming) = response.into_parts();
    if says_close(&parts) {
        connection.close_after();
    }
    remove_hop_by_hop(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let body = HttpBody::new(incoming, session, connection);
    Ok(Response::from_parts(parts, ResponseBody::Http(Box::new(body))))
}

/// Returns whether the application closes the connection after this answer (RFC 9112, 9.3).
fn says_close(answer: &response::Parts) -> bool {
    answer.version < Version::HTTP_11 || has_token(&answer.headers, "close")
}

fn outbound(request: &Inbound, upgrading: bool) -> Request<Upload> {
    let parts = &request.parts;
    let mut out = Request::new(request.upload.clone());
    *out.method_mut() = parts.method.clone();
    // The target of the client's request, without scheme and host.
    *out.uri_mut() = parts.uri.path_and_query().map_or_else(Uri::default, |p| p.clone().into());
    *out.headers_mut() = outbound_headers(&parts.headers, &request.peer, upgrading);
    out
}

fn outbound_headers(from: &HeaderMap, peer: &Peer, upgrading: bool) -> HeaderMap {
    let mut headers = from.clone();
    let protocol = headers.get(header::UPGRADE).cloned();
    remove_hop_by_hop(&mut headers);
    headers.remove(header::EXPECT); // the agent has answered this field itself
    headers.remove("proxy");
    if let Some(protocol) = protocol.filter(|_| upgrading) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    if !headers.contains_key(header::HOST) {
        // HTTP/1.0 does not require a host, but HTTP/1.1 does, which the agent speaks to the application.
        if let Ok(host) = HeaderValue::try_from(peer.local.to_string()) {
            headers.insert(header::HOST, host);
        }
    }
    let client = peer.remote.ip().to_canonical().to_string();
    let chain: Vec<_> = headers
        .get_all(&FORWARDED_FOR)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .chain([&*client])
        .collect();
    if let Ok(chain) = HeaderValue::try_from(chain.join(", ")) {
        headers.insert(FORWARDED_FOR, chain);
    }
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
    headers
}

/// Connects client and application after an upgrade to another protocol, such as WebSocket.
///
/// A task copies bytes both ways until one side closes or the agent shuts down. It holds the session
/// meanwhile.
fn tunnel(
    session: Session,
    mut response: Response<hyper::body::Incoming>,
    client: OnUpgrade,
    mut closing: watch::Receiver<bool>,
) -> Response<ResponseBody> {
    let app = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let pass = async {
            let (client, app) = tokio::try_join!(client, app)?;
            let (mut client, mut app) = (TokioIo::new(client), TokioIo::new(app));
            tokio::io::copy_bidirectional(&mut client, &mut app).await?;
            Ok::<(), BoxError>(())
        };
        tokio::select! {
            done = pass => if let Err(e) = done {
                tracing::debug!("an upgraded connection ended: {}", Chain(&*e));
            },
            _ = closing.wait_for(|closing| *closing) => {}
        }
        drop(session);
    });
    response.map(|_| ResponseBody::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)], upgrading: bool) -> HeaderMap {
        let mut from = HeaderMap::new();
        for (name, value) in pairs {
            from.append(*name, HeaderValue::from_static(value));
        }
        let peer = Peer {
            remote: "[::ffff:10.0.0.9]:5555".parse().unwrap(),
            local: "127.0.0.1:3000".parse().unwrap(),
        };
        outbound_headers(&from, &peer, upgrading)
    }

    #[test]
    fn the_application_gets_the_clients_address() {
        let h = headers(&[("x-forwarded-for", "1.1.1.1"), ("host", "a")], false);
        assert_eq!(h["x-forwarded-for"], "1.1.1.1, 10.0.0.9");
        assert_eq!(h["x-forwarded-proto"], "http");
        assert_eq!(headers(&[], false)["host"], "127.0.0.1:3000");
    }

    #[test]
    fn an_upgrade_is_passed_on_only_if_possible() {
        let asked = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
        let h = headers(&asked, true);
        assert_eq!(
            (&h["connection"], &h["upgrade"]),
            (&HeaderValue::from_static("upgrade"), &HeaderValue::from_static("websocket"))
        );
        let h = headers(&asked, false);
        assert!(!h.contains_key("connection") && !h.contains_key("upgrade"));
    }
}
