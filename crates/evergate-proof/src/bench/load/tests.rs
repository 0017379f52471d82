//! The load against the server it is made for, in one process.

use std::time::Duration;

use evergate_testkit::{FastServer, FastServerSettings};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Client, HttpClient, Question};
use crate::product::{Address, Program};

const PLAIN: FastServerSettings =
    FastServerSettings { tools: 50, event_streams: false, id_last: false };

/// Serves as long as the tasks live.
async fn server(settings: FastServerSettings) -> (JoinSet<std::io::Result<()>>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(FastServer::new(settings).serve_http(listener));
    (tasks, url)
}

#[tokio::test]
async fn many_callers_get_answers_of_every_size_in_every_form() {
    for (event_streams, id_last) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_tasks, url) = server(FastServerSettings { event_streams, id_last, ..PLAIN }).await;
        let mut client = Client::Http(HttpClient::connect(&url).await.unwrap());
        for bytes in [0, 100, 10 * 1024, 1024 * 1024] {
            let question = [Question::call("echo", bytes)];
            for callers in [1, 16] {
                client.reconnect(&question, callers).await.unwrap();
                let sample =
                    client.run(&question, callers, Duration::from_millis(10)).await.unwrap();
                assert!(sample.calls >= callers);
                assert!(sample.percentile(50) <= sample.percentile(99));
            }
        }
        client.ask(&Question::list(50)).await.unwrap();
        assert!(client.ask(&Question::list(51)).await.is_err());
    }
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_not_counted() {
    let (_tasks, url) = server(PLAIN).await;
    let mut client = Client::Http(HttpClient::connect(&url).await.unwrap());
    let question = Question { params: "{}".to_owned(), ..Question::call("echo", 100) };
    let problem = client.ask(&question).await.unwrap_err();
    assert!(format!("{problem:#}").contains("-32602"), "{problem:#}");
}

#[tokio::test]
async fn a_session_that_has_ended_is_gone_and_others_are_not() {
    let (_tasks, url) = server(PLAIN).await;
    let (one, two) = (HttpClient::connect(&url).await.unwrap(), HttpClient::connect(&url).await);
    let mut two = two.unwrap();
    let _listening = one.listen().await.unwrap();
    let sessions = [one.session().unwrap().to_owned(), two.session().unwrap().to_owned()];
    assert_ne!(sessions[0], sessions[1]);
    let question = Question::call("echo", 100);
    let both = two.run_sessions(&question, &sessions, 4, Duration::from_millis(5)).await.unwrap();
    assert!(both.calls >= 4);
    one.end().await.unwrap();
    let problem = two.run_sessions(&question, &sessions[..1], 1, Duration::ZERO).await.unwrap_err();
    assert!(format!("{problem:#}").contains("404"), "{problem:#}");
    two.run_sessions(&question, &sessions[1..], 1, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn many_calls_go_over_one_pipe() {
    // The program is there when the whole workspace is tested; it has nothing to do with this crate otherwise.
    let Some(command) = evergate_testkit::fast_server_path() else { return };
    let args = vec!["--stdio".to_owned(), "--tools".to_owned(), "7".to_owned()];
    let program = Program { command, args, env: Vec::new() };
    let mut client = Client::connect(&Address::Stdio(program)).await.unwrap();
    for bytes in [100, 1024 * 1024] {
        for callers in [1, 16] {
            let question = [Question::call("echo", bytes)];
            let sample = client.run(&question, callers, Duration::from_millis(10)).await.unwrap();
            assert!(sample.calls >= callers);
        }
    }
    client.ask(&Question::list(7)).await.unwrap();
}
