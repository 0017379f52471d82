//! A server that forgets all of its sessions every two seconds. Point a client at it and watch.

#![expect(clippy::print_stdout, reason = "this is a command-line program")]

use std::time::Duration;

use evergate_testkit::{HttpServer, Server, SessionLoss};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::new();
    let http = HttpServer::start(server.clone()).await;
    println!("a flaky MCP server listens on {} (Ctrl-C ends it)", http.url());

    let forgetting = async {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let counters = server.counters();
            server.expire_sessions(SessionLoss::NotFound404);
            println!(
                "forgot {} sessions; {} handshakes and {} calls so far",
                counters.sessions_open, counters.handshakes, counters.calls
            );
        }
    };
    tokio::select! {
        () = forgetting => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
