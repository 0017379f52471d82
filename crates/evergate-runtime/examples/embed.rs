//! An agent's view of a server that dies under it. Run it with `cargo run -p evergate-runtime --example embed`.
//!
//! The server lives in this process so that the example needs nothing else; put `Settings::stdio` or `Settings::http`
//! in its place for a real one.

use std::time::Duration;

use evergate_runtime::{Hub, HubEvent, MemoryConnector, Settings};
use evergate_testkit::{MemoryServer, Server};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = MemoryServer::new(Server::new());
    let connector = server.clone();
    let settings = Settings::memory(MemoryConnector::new(move || connector.connect()))
        .timeout(Duration::from_secs(30));
    let hub = Hub::builder().server("demo", settings);
    let mut events = hub.events();
    let hub = hub.start()?;

    let demo = hub.server("demo")?;
    let result = demo.call_tool("echo", json!({ "text": "hello" })).await?;
    show(&format!("answered: {}", result.as_str()));

    server.kill();
    server.revive();
    let result = demo.call_tool("echo", json!({ "text": "hello again" })).await;
    match result {
        Ok(result) => show(&format!("answered: {}", result.as_str())),
        // The call may have been on its way when the server died; then nobody can tell, and we say so.
        Err(error) => show(&format!("{}: {}", error.outcome, error.chain())),
    }

    while let Ok(event) = events.try_recv() {
        if let HubEvent::Transition(step) = event {
            show(&format!("{}: {} -> {} ({})", step.server, step.from, step.to, step.reason));
        }
    }
    hub.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example that prints nothing shows nothing")]
fn show(line: &str) {
    println!("{line}");
}
