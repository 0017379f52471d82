//! Newline-delimited JSON-RPC over any byte streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use crate::Server;
use crate::fault::{ArmedFault, Fault, Incoming, SessionLoss};
use crate::jsonrpc::{Message, Outcome, Request, unbound_error};
use crate::one_stream;
use crate::server::modern::MODERN;
use crate::server::{Exchange, Listen};
use crate::session::{OUTBOX_LIMIT, Outgoing, Session, Sink};
use crate::tasks::Tasks;

/// How long calls may still finish after the client closed its side: enough for those that do
/// not wait for anything, short enough for a prompt exit.
const GRACE: Duration = Duration::from_millis(50);

/// Serves one client until it closes its side or a fault cuts the connection.
///
/// Requests run at the same time; dropping the future ends all of them.
pub async fn serve_lines<R, W>(server: &Server, reader: R, writer: W)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    serve_lines_slowly(server, reader, writer, Duration::ZERO).await;
}

/// Like [`serve_lines`], but `initialize` is answered only after `handshake_delay`.
pub(crate) async fn serve_lines_slowly<R, W>(
    server: &Server,
    reader: R,
    writer: W,
    handshake_delay: Duration,
) where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (outbox, to_write) = mpsc::channel(OUTBOX_LIMIT);
    let mut connection = Connection::open(server, outbox, handshake_delay);
    let writing = write_all(server, to_write, writer);
    tokio::pin!(writing);
    tokio::select! {
        biased;
        () = &mut writing => return,
        () = connection.read_all(reader) => {}
    }
    let tasks = connection.tasks.clone();
    let finishing = async {
        drop(tokio::time::timeout(GRACE, tasks.gone()).await);
        // The writer ends when it has written what is left, since nobody can add to it now.
        drop(connection);
    };
    tokio::join!(finishing, async { drop(tokio::time::timeout(2 * GRACE, writing).await) });
}

/// The reading side of one client.
struct Connection<'a> {
    server: &'a Server,
    home: u64,
    outbox: mpsc::Sender<Outgoing>,
    session: Option<Arc<Session>>,
    handshake_delay: Duration,
    tasks: Tasks,
}

// === impl Connection ===

impl<'a> Connection<'a> {
    fn open(server: &'a Server, outbox: mpsc::Sender<Outgoing>, handshake_delay: Duration) -> Self {
        server.count(|tally| tally.connections_open += 1);
        let (home, tasks) = (server.serial(), Tasks::default());
        Self { server, home, outbox, session: None, handshake_delay, tasks }
    }

    async fn read_all(&mut self, reader: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if !line.trim().is_empty() {
                self.receive(&line);
            }
        }
    }

    fn receive(&mut self, line: &str) {
        let Some((messages, _)) = Message::parse_all(line) else {
            return self.say(unbound_error(-32700, "Parse error", true));
        };
        for message in messages {
            match message {
                Message::Request(request) => self.receive_request(request),
                Message::Notification { method, params, raw_params } => {
                    self.server.count_received(&method, &raw_params);
                    // Only faults on requests mean anything here; this one is used up.
                    drop(self.server.strike(Incoming::Notification(&method)));
                    if let Some(session) = &self.session {
                        self.server.receive_notification(session, &method, &params);
                    }
                }
                Message::Response(response) => self.server.receive_response(response),
            }
        }
    }

    fn receive_request(&mut self, request: Request) {
        self.server.count_received(&request.method, &request.raw_params);
        let fault = self.server.strike(Incoming::Request(&request));
        if self.server.is_modern(&request.params, None) {
            return self.receive_modern(request, fault);
        }
        let pinned = self.server.pins() && self.is_modern();
        let refused = pinned.then(|| Server::no_handshake(&request));
        if let Some(refused) = refused.or_else(|| self.server.refuse_legacy(&request)) {
            return self.refuse(&request, fault, &refused);
        }
        if request.method == "initialize" {
            return self.receive_initialize(request, fault);
        }
        let refused = match &self.session {
            Some(session) => self.server.find_session(&session.id).err(),
            None if request.method == "ping" => None,
            None => Some(SessionLoss::BadRequest400NotInitialized),
        };
        if let Some(shape) = refused {
            let (code, message) = shape.as_error();
            return self.refuse(&request, fault, &Outcome::error(code, message));
        }
        // A ping may come before the session; one that nobody can find serves as well.
        let session = self.session.clone();
        let session =
            session.unwrap_or_else(|| Arc::new(Session::new(String::new(), self.home, None)));
        let sink = Sink::Outbox(self.outbox.clone());
        let exchange = Exchange::begin(self.server, &session, sink, request);
        self.tasks.spawn(one_stream::answer(exchange, fault));
    }

    /// Without a handshake; one session for all of them knows what is under way.
    fn receive_modern(&mut self, request: Request, fault: Option<ArmedFault>) {
        let late = self.server.pins() && self.session.is_some() && !self.is_modern();
        let refused = late.then(Server::refuse_late_modern);
        if let Some(refused) = refused.or_else(|| self.server.refuse_modern(&request)) {
            return self.refuse(&request, fault, &refused);
        }
        let session = self.session.get_or_insert_with(|| {
            let session = self.server.open_session(self.home, Some(self.outbox.clone()));
            session.set_protocol(MODERN);
            session
        });
        let (session, sink) = (session.clone(), Sink::Outbox(self.outbox.clone()));
        if request.method == "subscriptions/listen" {
            let server = self.server.clone();
            self.tasks.spawn(async move {
                let fault = fault.as_ref().map(|armed| &*armed.fault);
                if one_stream::refuse(&sink, &request, fault) {
                    return;
                }
                let exchange = session.begin(&request.id);
                if let Some(Fault::DelayAnswer(delay)) = fault {
                    tokio::time::sleep(*delay).await;
                }
                if !exchange.cancelled.is_cancelled() {
                    let listen = Listen::new(&request, &server.state());
                    sink.send(listen.acknowledgement());
                    // Last: whoever waits for it may have news at once.
                    server.update(|_| session.listen(listen));
                }
            });
            return;
        }
        let exchange = Exchange::begin(self.server, &session, sink, request);
        self.tasks.spawn(one_stream::answer(exchange, fault));
    }

    fn receive_initialize(&mut self, request: Request, fault: Option<ArmedFault>) {
        let server = self.server.clone();
        server.forget(|session| session.home == self.home);
        let session = server.open_session(self.home, Some(self.outbox.clone()));
        self.session = Some(session.clone());
        let (delay, sink) = (self.handshake_delay, Sink::Outbox(self.outbox.clone()));
        self.tasks.spawn(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            one_stream::answer_initialize(&server, &session, &sink, &request, fault).await;
        });
    }

    fn is_modern(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.protocol() == MODERN)
    }

    /// Refuses a request, unless a fault keeps even that from being said.
    fn refuse(&self, request: &Request, fault: Option<ArmedFault>, refusal: &Outcome) {
        let sink = Sink::Outbox(self.outbox.clone());
        let (request, answer) = (request.clone(), refusal.encode(&request.id));
        self.tasks.spawn(async move {
            let fault = fault.as_ref().map(|armed| &*armed.fault);
            if one_stream::refuse(&sink, &request, fault) {
                return;
            }
            if let Some(Fault::DelayAnswer(delay)) = fault {
                tokio::time::sleep(*delay).await;
            }
            one_stream::send(&sink, &request, fault, answer);
        });
    }

    fn say(&self, json: String) {
        drop(self.outbox.try_send(Outgoing::Message { event_id: None, json, is_answer: true }));
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.tasks.stop();
        self.server.forget(|session| session.home == self.home);
        self.server.count(|tally| tally.connections_open -= 1);
    }
}

/// The writing side: ends when the connection is to be cut, or when nobody can write any more.
async fn write_all(
    server: &Server,
    mut to_write: mpsc::Receiver<Outgoing>,
    mut writer: impl AsyncWrite + Unpin,
) {
    let mut allowed = usize::MAX;
    while let Some(outgoing) = to_write.recv().await {
        match outgoing {
            Outgoing::Message { mut json, is_answer, .. } => {
                json.push('\n');
                let bytes = json.as_bytes();
                let cut = bytes.len() > allowed;
                let bytes = &bytes[..bytes.len().min(allowed)];
                let written = async {
                    writer.write_all(bytes).await?;
                    writer.flush().await
                };
                if written.await.is_err() || cut {
                    return;
                }
                if allowed != usize::MAX {
                    allowed -= bytes.len();
                }
                if is_answer {
                    server.count(|tally| tally.answered += 1);
                }
            }
            Outgoing::CloseAfter(bytes) => allowed = bytes,
            Outgoing::Cut => return,
            Outgoing::HalfClose => {
                drop(writer.shutdown().await);
                // Nothing more may be said, but the other direction stays open.
                while to_write.recv().await.is_some() {}
            }
            Outgoing::Prime { .. } | Outgoing::Comment | Outgoing::Endpoint(_) => {}
        }
    }
}
