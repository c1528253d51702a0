//! One request in the session protocol.
//!
//! The agent sends head, body and half-close, and the process answers with head and body.

use super::response_body::{Held, Pump, Reader, ResponseBody, SessionBody};
use super::session_codec::{Head, encode, parse_head};
use super::{Failed, Inbound, Reached};
use crate::app::Session;
use crate::app::stream::AppStream;
use crate::http::upload::Upload;
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::{Method, Response, StatusCode};
use std::io;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::sync::oneshot;

/// Sends the request over the session, and returns the answer once its head has arrived.
pub(crate) async fn exchange(
    mut session: Session,
    request: &Inbound,
) -> Result<Response<ResponseBody>, Failed> {
    let failed =
        |session, reached, why: String| Err(Failed { session: Some(session), why, reached });
    let head = match encode(request, &session.process.password) {
        Ok(head) => head,
        Err(why) => {
            return failed(session, Reached::Verdict(StatusCode::BAD_REQUEST), why.to_owned());
        }
    };
    let Some(opened) = session.opened.take() else {
        return failed(session, Reached::NotTheApp, "the session has no connection".into());
    };
    let mut stream = match AppStream::finish(opened, &session.process.endpoint.key.address).await {
        Ok(stream) => stream,
        Err(e) => return Err(Failed::to_connect(session, &e)),
    };
    if let Err((reached, e)) = send_head(&mut stream, &head).await {
        return failed(session, reached, e.to_string());
    }
    let (broken, mut body_broke) = oneshot::channel();
    let (mut reader, pump) = if request.upload.is_end_stream() {
        if let Err(e) = stream.shutdown().await {
            return failed(session, Reached::TheApp, e.to_string());
        }
        (Reader::Whole(stream), None)
    } else {
        let (read, write) = tokio::io::split(stream);
        let pump = Pump(tokio::spawn(send_body(write, request.upload.clone(), broken)));
        (Reader::Half(read), Some(pump))
    };
    let mut begun = BytesMut::with_capacity(8 * 1024);
    let received = tokio::select! {
        biased;
        received = receive_head(&mut reader, &mut begun) => received,
        // The application's answer to half a body would look like the answer to the whole.
        Ok(why) = &mut body_broke => Err((Reached::Verdict(StatusCode::BAD_REQUEST), why)),
    };
    drop(body_broke);
    let head = match received {
        Ok(head) => head,
        Err((reached, why)) => return failed(session, reached, why),
    };
    Ok(answer(request, head, begun, Held { session, reader, _pump: pump }))
}

async fn send_head(stream: &mut AppStream, head: &[u8]) -> Result<(), (Reached, io::Error)> {
    let sent = stream.write(head).await.map_err(|e| (Reached::NotTheApp, e))?;
    stream.write_all(&head[sent..]).await.map_err(|e| (Reached::TheApp, e))
}

/// Sends the body as it arrives, at the pace of the application.
///
/// If the body breaks off before the answer has begun, the function notifies the exchange and does not
/// half-close. If the answer has begun, the application sees an early end of its input, and can detect
/// that by CONTENT_LENGTH.
async fn send_body(
    mut to: WriteHalf<AppStream>,
    mut upload: Upload,
    broken: oneshot::Sender<String>,
) {
    while let Some(frame) = upload.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(e) if broken.send(e.to_string()).is_ok() => return,
            Err(_) => break,
        };
        if let Some(data) = frame.data_ref()
            && to.write_all(data).await.is_err()
        {
            return; // the application reads no further, but it may still answer
        }
    }
    let _ = to.shutdown().await;
}

async fn receive_head(
    reader: &mut Reader,
    begun: &mut BytesMut,
) -> Result<Head, (Reached, String)> {
    let bad = Reached::Verdict(StatusCode::BAD_GATEWAY);
    loop {
        let is_first = begun.is_empty();
        let broke = |why: String| if is_first { (Reached::TheApp, why) } else { (bad, why) };
        begun.reserve(4096);
        match reader.read(begun).await {
            Ok(0) => {
                return Err(broke(
                    "the application closed the connection without an answer".into(),
                ));
            }
            Ok(_) => {}
            Err(e) => return Err(broke(e.to_string())),
        }
        match parse_head(begun) {
            Ok(Some(head)) => {
                let _ = begun.split_to(head.size);
                return Ok(head);
            }
            Ok(None) => {}
            Err(why) => {
                return Err((
                    bad,
                    format!("the head of the application's answer is malformed: {why}"),
                ));
            }
        }
    }
}

fn answer(request: &Inbound, head: Head, begun: BytesMut, held: Held) -> Response<ResponseBody> {
    let bodyless = request.parts.method == Method::HEAD
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if bodyless {
        ResponseBody::empty()
    } else {
        ResponseBody::Session(Box::new(SessionBody::new(begun, head.content_length, held)))
    };
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}
