//! An agent host: keeps its client, and makes a new one only when it is told that the connection or session is gone.
//!
//! The same rule for every product ([`says_gone`]): a host does not reconnect because a tool failed, and does not keep
//! a connection that it was told is dead. How often it had to is counted. A client without a handshake has no stream that
//! its SDK opens again: the host asks to be told of changes, and asks again when it is told that this has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::faults::client::{Client, Event, Reply, Told};
use crate::faults::pace::LOOK_EVERY;
use crate::faults::witness::{Call, End, Look, Tool, Witness};
use crate::product::{Address, Places};

/// Words with which servers and SDKs say that a session or connection is no more. In lower case.
pub const GONE: &[&str] = &[
    "session not found",
    "session expired",
    "session terminated",
    "session has been terminated",
    "session is not known",
    "session does not exist",
    "unknown session",
    "invalid session",
    "no valid session",
    "missing session",
    "no active session",
    "no transport found for session",
    "session id is required",
    "server not initialized",
    "not been initialized",
    "expect initialize",
    "not connected",
    "connection closed",
];

/// The long-lived client side of one cell.
#[derive(Debug)]
pub struct Host {
    client: Arc<Client>,
    address: Address,
    modern: bool,
    deadline: Duration,
    witness: Arc<Witness>,
    connection: Arc<Mutex<Connection>>,
    /// One handshake at a time, however many callers want one.
    connecting: tokio::sync::Mutex<()>,
    next_call: AtomicU64,
    unheard: watch::Sender<()>,
    listener: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Connection {
    number: u64,
    gone: bool,
}

// === impl Host ===

impl Host {
    /// Starts the client, a modern one or one with a handshake, and connects it. Failures are told, not counted: nothing was
    /// broken on purpose yet.
    pub async fn connect(
        places: &Places,
        address: Address,
        modern: bool,
        deadline: Duration,
        witness: Arc<Witness>,
    ) -> anyhow::Result<Self> {
        let (client, events) = Client::start(places)?;
        let client = Arc::new(client);
        let connection = Arc::new(Mutex::new(Connection::default()));
        let mut listener = JoinSet::new();
        let (unheard, to_hear_again) = watch::channel(());
        listener.spawn(listen(events, connection.clone(), witness.clone(), unheard.clone()));
        let number = client.connect(&address, modern, deadline).await;
        let number =
            number.map_err(|told| anyhow::anyhow!("the client cannot connect: {}", told.text))?;
        lock(&connection).number = number;
        if modern {
            listener.spawn(keep_listening(client.clone(), deadline, to_hear_again));
        }
        Ok(Self {
            client,
            address,
            modern,
            deadline,
            witness,
            connection,
            connecting: tokio::sync::Mutex::default(),
            next_call: AtomicU64::new(1),
            unheard,
            listener,
        })
    }

    /// Makes one call under a name that the server counts, and notes how it ended. `exposed` is the tool's name as the
    /// product shows it.
    pub async fn call(&self, exposed: &str, tool: Tool, doomed: bool) -> End {
        let id = format!("call-{}", self.next_call.fetch_add(1, Ordering::Relaxed));
        let args = match tool {
            Tool::Echo => json!({ "text": id, "call_id": id }),
            Tool::Slow => json!({ "ms": 100, "call_id": id }),
            Tool::Again => json!({ "call_id": id }),
        };
        let expected = match tool {
            Tool::Echo => &id,
            Tool::Slow => "slow but done",
            Tool::Again => "again",
        };
        let started = Instant::now();
        let end = match self.renew().await {
            Ok(()) => judge(self.client.call(exposed, &args, self.deadline).await, expected),
            Err(told) => End::Failed(told),
        };
        if let End::Failed(told) = &end {
            self.heed(told);
        }
        let (tool, ended) = (tool, Instant::now());
        let call = Call { id, tool, started, ended, end: end.clone(), doomed, executions: 0 };
        self.witness.note(|seen| seen.calls.push(call));
        end
    }

    /// Looks at the tool list and notes it.
    pub async fn look(&self) -> Result<Vec<String>, String> {
        let started = Instant::now();
        let tools = self.list().await;
        let look = Look { started, ended: Instant::now(), tools: tools.clone() };
        self.witness.note(|seen| seen.looks.push(look));
        tools
    }

    /// The tool list, without noting anything.
    pub async fn list(&self) -> Result<Vec<String>, String> {
        self.renew().await.map_err(|told| told.text)?;
        match self.client.list(self.deadline).await {
            Reply::Result(result) => {
                let names = result["tools"].as_array().into_iter().flatten();
                Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
            }
            Reply::Error(told) => {
                self.heed(&told);
                Err(told.text)
            }
            Reply::Nothing => Err("no answer".into()),
        }
    }

    /// Makes a new client although nobody said that the old one is gone.
    pub async fn insist(&self) -> Result<(), Told> {
        lock(&self.connection).gone = true;
        self.renew().await
    }

    /// Ends the client. How many processes that it started outlived it.
    pub async fn close(mut self) -> usize {
        self.listener.shutdown().await;
        match Arc::into_inner(self.client) {
            Some(client) => client.close().await,
            None => 0,
        }
    }

    /// Makes a new client if the old one is gone.
    async fn renew(&self) -> Result<(), Told> {
        if !lock(&self.connection).gone {
            return Ok(());
        }
        let _turn = self.connecting.lock().await;
        if !lock(&self.connection).gone {
            return Ok(());
        }
        let made = self.client.connect(&self.address, self.modern, self.deadline).await;
        // A call that was never made surely did not run, which is what this error tells.
        let number =
            made.map_err(|told| Told::saying(format!("not sent: cannot connect: {}", told.text)))?;
        *lock(&self.connection) = Connection { number, gone: false };
        self.unheard.send_replace(());
        Ok(())
    }

    /// Finds out from an error whether the connection is gone.
    fn heed(&self, told: &Told) {
        if !says_gone(told) || told.text.starts_with("not sent: cannot connect") {
            return;
        }
        let mut connection = lock(&self.connection);
        if !connection.gone {
            connection.gone = true;
            self.witness.note(|seen| seen.reinitialized += 1);
        }
    }
}

async fn listen(
    mut events: mpsc::Receiver<Event>,
    connection: Arc<Mutex<Connection>>,
    witness: Arc<Witness>,
    unheard: watch::Sender<()>,
) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Closed(number) => {
                let mut connection = lock(&connection);
                // Connections that were given up say goodbye too.
                if connection.number == number && !connection.gone {
                    connection.gone = true;
                    witness.note(|seen| seen.reinitialized += 1);
                }
            }
            Event::Notification(method) if method == "notifications/tools/list_changed" => {
                witness.note(|seen| seen.news.push(Instant::now()));
            }
            Event::Unheard(number) if lock(&connection).number == number => {
                witness.note(|seen| seen.unheard.push(Instant::now()));
                unheard.send_replace(());
            }
            Event::Notification(_) | Event::Unheard(_) => {}
        }
    }
}

/// Listens now, and again whenever it has ended.
async fn keep_listening(client: Arc<Client>, deadline: Duration, mut ended: watch::Receiver<()>) {
    loop {
        ended.mark_unchanged();
        while !matches!(client.listen(deadline).await, Reply::Result(_)) {
            sleep(LOOK_EVERY).await;
        }
        if ended.changed().await.is_err() {
            break;
        }
    }
}

/// Whether an error says that the session or the connection is no more.
pub fn says_gone(told: &Told) -> bool {
    let text = told.text.to_lowercase();
    // Streamable HTTP: "When a client receives HTTP 404 in response to a request containing an Mcp-Session-Id, it MUST
    // start a new session".
    !told.as_result && (told.code == Some(404) || GONE.iter().any(|words| text.contains(words)))
}

fn judge(reply: Reply, expected: &str) -> End {
    match reply {
        Reply::Result(result) => {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            if result["isError"] == true {
                // Some products report their own failures as the result of the tool.
                return End::Failed(Told { as_result: true, ..Told::saying(text) });
            }
            if text == expected { End::Answered } else { End::WrongResult(result.to_string()) }
        }
        Reply::Error(told) if told.own_deadline => End::Silence,
        Reply::Error(told) => End::Failed(told),
        Reply::Nothing => End::Silence,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
