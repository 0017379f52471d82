//! Against a listener that says exactly what a test wants it to say.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::admin::model::{LogLevel, ProblemCode};
use crate::exit_code::Failure;
use crate::tasks::Tasks;

const KEY: &str = "0123456789abcdef";

/// Answers every request with these bytes; gives back where, and what was asked last.
async fn saying(answer: impl Into<String>) -> (Url, tokio::sync::watch::Receiver<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = parse_url(&listener.local_addr().unwrap().to_string()).unwrap();
    let (asked, seen) = tokio::sync::watch::channel(String::new());
    Tasks::default().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await.unwrap();
            asked.send_replace(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, seen)
}

/// An answer as it should be.
fn whole(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn error_of(answer: &str, key: Option<&str>) -> ClientError {
    let (url, _) = saying(answer).await;
    let key = key.map(|key| Secret::new(key).unwrap());
    let client = AdminClient::new(url, key).unwrap();
    client.get::<LogLevel>(&["log-level"]).await.unwrap_err()
}

#[test]
fn urls_as_people_write_them() {
    for text in [
        "127.0.0.1:8080",
        "http://127.0.0.1:8080",
        "http://127.0.0.1:8080/",
        " http://127.0.0.1:8080/mcp ",
        "http://127.0.0.1:8080/api/v1/?x#y",
    ] {
        assert_eq!(parse_url(text).unwrap().as_str(), "http://127.0.0.1:8080/", "{text}");
    }
    assert_eq!(parse_url("https://a.example/gate/mcp").unwrap().as_str(), "https://a.example/gate");
    for text in ["", "ftp://a", "http://", "file:///tmp/x", "a b"] {
        assert!(parse_url(text).unwrap_err().contains("not the URL of a gateway"), "{text}");
    }
    let error = parse_url("http://me:hunter2@a.example").unwrap_err();
    assert!(error.contains("EVERGATE_KEY") && !error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn names_are_escaped_and_the_key_goes_along() {
    let (url, seen) = saying(whole("200 OK", "{\"level\":\"info\"}")).await;
    let client = AdminClient::new(url, Some(Secret::new(KEY).unwrap())).unwrap();
    let level: LogLevel = client.post(&["servers", "a/b c?", "restart"]).await.unwrap();
    assert_eq!(level.level, "info");
    let asked = seen.borrow().to_lowercase();
    assert!(asked.starts_with("post /api/v1/servers/a%2fb%20c%3f/restart http/1.1\r\n"), "{asked}");
    for header in ["authorization: bearer 0123456789abcdef", "content-type: application/json"] {
        assert!(asked.contains(header), "{asked}");
    }
    assert!(!format!("{client:?}").contains(KEY));
}

#[tokio::test]
async fn nobody_there_is_told_from_other_trouble() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = parse_url(&listener.local_addr().unwrap().to_string()).unwrap();
    drop(listener);
    let client = AdminClient::new(url.clone(), None).unwrap();
    let error = client.get_raw(&["gateway"]).await.unwrap_err();
    assert!(error.is_nobody_there() && error.may_pass(), "{error}");
    assert!(error.to_string().contains("is the gateway running?"), "{error}");
    // One that was found by what it said of itself has ended since.
    let mut control = Control::new(url.to_string(), &[]).unwrap();
    control.pid = 4711;
    let client = AdminClient::known(control, None).unwrap();
    let error = client.get_raw(&["gateway"]).await.unwrap_err().to_string();
    assert!(error.contains("(process 4711) no longer listens"), "{error}");
    let error = error_of("", None).await;
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    assert!(matches!(error_of(cut, None).await, ClientError::Broken { .. }));
}

#[tokio::test]
async fn what_a_gateway_refuses_says_what_to_do() {
    let denied = whole("401 Unauthorized", "");
    let error = error_of(&denied, None).await.to_string();
    assert!(error.contains("wants a key") && error.contains("EVERGATE_KEY"), "{error}");
    let error = error_of(&denied, Some(KEY)).await.to_string();
    assert!(error.contains("does not know the key") && !error.contains(KEY), "{error}");
    let scope = whole(
        "403 Forbidden",
        "{\"error\":{\"code\":\"forbidden\",\"message\":\"this key lacks the scope admin\"}}",
    );
    let error = error_of(&scope, Some(KEY)).await.to_string();
    assert!(error.contains("lacks the scope admin"), "{error}");
    let host = whole("403 Forbidden", "no");
    assert!(error_of(&host, None).await.to_string().contains("allowed_hosts"));
    let conflict = whole(
        "409 Conflict",
        "{\"error\":{\"code\":\"conflict\",\"message\":\"docs is switched off already\"}}",
    );
    let error = error_of(&conflict, None).await;
    assert!(
        matches!(&error, ClientError::Refused(problem) if problem.code == ProblemCode::Conflict),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "docs is switched off already");
}

#[tokio::test]
async fn others_than_gateways_are_recognised() {
    let page = whole("404 Not Found", "nope");
    assert!(error_of(&page, None).await.to_string().contains("has no admin API"));
    let proxy = whole("502 Bad Gateway", "nope");
    assert!(error_of(&proxy, None).await.to_string().contains("502"));
    let other = whole("200 OK", "<a/>");
    let error = error_of(&other, None).await;
    assert!(error.to_string().contains("another version"), "{error}");
    // Not a bug of this program.
    assert!(!format!("{:?}", Failure::from(error)).contains("code: 70"));
}

#[tokio::test]
async fn events_are_read_one_by_one_until_the_stream_ends() {
    let (url, seen) = saying(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         event: hello\ndata: {}\n\n: still here\n\nid: 7\nevent: transition\ndata: {\"n\":7}\n\n",
    )
    .await;
    let client = AdminClient::new(url, None).unwrap();
    let mut events = client.events(Some(6)).await.unwrap();
    assert!(seen.borrow().starts_with("GET /api/v1/events?after=6 "), "{}", *seen.borrow());
    assert_eq!(events.next().await.unwrap().unwrap().kind, "hello");
    let event = events.next().await.unwrap().unwrap();
    assert_eq!((event.id.as_deref(), &event.data[..]), (Some("7"), &b"{\"n\":7}"[..]));
    assert!(events.next().await.unwrap().is_none());
}
