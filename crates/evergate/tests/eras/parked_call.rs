//! A call that waits for its caller while a test does something else.

use evergate_testkit::Eras;
use serde_json::{Value, json};

use crate::stateless_client::{Draft, Replied, Stateless, key};
use crate::support::Gateway;
use crate::upstream::{Over, Upstream};

/// A server of an earlier revision behind a gateway, and one of its calls has asked for a name.
pub(crate) struct Scene {
    pub(crate) up: Upstream,
    pub(crate) gateway: Gateway,
    pub(crate) client: Stateless,
    pub(crate) parked: ParkedCall,
}

/// The call of a tool that asks for a name.
pub(crate) struct ParkedCall {
    pub(crate) call: Draft,
    pub(crate) asked: Value,
}

pub(crate) const ANSWER: &str = r#"{"action":"accept","content":{"name":"Ada"}}"#;

pub(crate) fn answer() -> Value {
    serde_json::from_str(ANSWER).unwrap()
}

// === impl Scene ===

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::over(Over::Http).await
    }

    pub(crate) async fn over(over: Over) -> Self {
        let up = Upstream::start(Eras::Legacy, over).await;
        let gateway = up.gateway().await;
        let client = Stateless::of(&gateway);
        let parked = ParkedCall::of(&client, "parked").await;
        Self { up, gateway, client, parked }
    }

    /// Whatever was done, the call goes on where it was, ran once, and others work too.
    pub(crate) async fn is_unharmed(self) {
        let told = self.parked.finish().await.text();
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["result"], answer());
        assert_eq!(self.up.server.executions("parked"), 1);
        assert_eq!(self.client.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
        let session = self.gateway.connect().await;
        assert_eq!(session.call_text("up__echo", json!({ "text": "hi" })).await, "hi");
    }
}

// === impl ParkedCall ===

impl ParkedCall {
    pub(crate) async fn of(client: &Stateless, call_id: &str) -> Self {
        Self::of_tool(client, "up__elicit", call_id).await
    }

    pub(crate) async fn of_tool(client: &Stateless, tool: &str, call_id: &str) -> Self {
        let call = client.call(tool, json!({ "call_id": call_id }));
        let asked = call.send().await.questions();
        Self { call, asked }
    }

    pub(crate) fn state(&self) -> &str {
        self.asked["requestState"].as_str().unwrap()
    }

    /// The request with the answer to what was asked.
    pub(crate) fn retry(&self) -> Draft {
        self.call.answering(&self.asked, json!({ key(&self.asked): answer() }))
    }

    pub(crate) async fn finish(&self) -> Replied {
        self.retry().send().await
    }
}
