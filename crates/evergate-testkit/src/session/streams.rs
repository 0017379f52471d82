//! The SSE streams of one streamable HTTP session, with what is needed to resume them.
//!
//! An event id names its stream and its place in it (`3-7`), so ids are unique in the session and
//! a resumed stream replays its own events only.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

use crate::session::outgoing::{OUTBOX_LIMIT, Outgoing};

/// How many events of one stream can be replayed; fewer than [`OUTBOX_LIMIT`] so that a replay
/// always fits.
const REPLAY_LIMIT: usize = 256;

/// Finished streams kept for resumption; the oldest go first.
const STREAM_LIMIT: usize = 256;

pub(crate) type StreamId = u64;

#[derive(Debug)]
pub(crate) struct Streams {
    newest: StreamId,
    known: BTreeMap<StreamId, Stream>,
    event_ids: bool,
}

#[derive(Debug)]
struct Stream {
    listening: bool,
    resumable: bool,
    ended: bool,
    newest_event: u64,
    events: VecDeque<Event>,
    live: Option<mpsc::Sender<Outgoing>>,
}

#[derive(Debug)]
struct Event {
    number: u64,
    json: String,
    is_answer: bool,
}

// === impl Streams ===

impl Default for Streams {
    fn default() -> Self {
        Self { newest: 0, known: BTreeMap::new(), event_ids: true }
    }
}

impl Streams {
    /// Whether events say where they stand, so that a client can resume after them.
    pub(crate) fn set_event_ids(&mut self, wanted: bool) {
        self.event_ids = wanted;
    }

    /// The way to whoever reads a stream.
    pub(crate) fn live(&self, id: StreamId) -> Option<mpsc::Sender<Outgoing>> {
        self.known.get(&id)?.live.clone()
    }

    /// Opens a stream: for one request, or (`listening`) for what the server says unasked.
    pub(crate) fn open(&mut self, listening: bool) -> (StreamId, mpsc::Receiver<Outgoing>) {
        self.newest += 1;
        let (live, receiver) = mpsc::channel(OUTBOX_LIMIT);
        self.known.insert(
            self.newest,
            Stream {
                listening,
                resumable: true,
                ended: false,
                newest_event: 0,
                events: VecDeque::new(),
                live: Some(live),
            },
        );
        while self.known.len() > STREAM_LIMIT {
            let oldest = self.known.iter().find(|(_, stream)| stream.ended);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            self.known.remove(&oldest);
        }
        (self.newest, receiver)
    }

    /// Opens a stream again after the event that the client saw last.
    pub(crate) fn resume(&mut self, last_event_id: &str) -> Option<mpsc::Receiver<Outgoing>> {
        let (stream_id, number) = last_event_id.split_once('-')?;
        let (stream_id, number) = (stream_id.parse().ok()?, number.parse::<u64>().ok()?);
        let stream = self.known.get_mut(&stream_id).filter(|stream| stream.resumable)?;
        let (live, receiver) = mpsc::channel(OUTBOX_LIMIT);
        for event in stream.events.iter().filter(|event| event.number > number) {
            drop(live.try_send(event.outgoing(Some(stream_id))));
        }
        // Without a sender the stream ends right after the replay.
        stream.live = (!stream.ended).then_some(live);
        Some(receiver)
    }

    pub(crate) fn send(&mut self, id: StreamId, json: String, is_answer: bool) {
        let Some(stream) = self.known.get_mut(&id) else { return };
        stream.newest_event += 1;
        let event = Event { number: stream.newest_event, json, is_answer };
        let outgoing = event.outgoing(self.event_ids.then_some(id));
        stream.events.push_back(event);
        if stream.events.len() > REPLAY_LIMIT {
            stream.events.pop_front();
        }
        stream.push(outgoing);
    }

    pub(crate) fn prime(&mut self, id: StreamId, retry_ms: Option<u64>) {
        let Some(stream) = self.known.get_mut(&id) else { return };
        let event_id = format!("{id}-{}", stream.newest_event);
        stream.push(Outgoing::Prime { event_id, retry_ms });
    }

    pub(crate) fn act(&mut self, id: StreamId, action: Outgoing) {
        if let Some(stream) = self.known.get_mut(&id) {
            stream.push(action);
        }
    }

    /// Lets go of the client, while the stream itself goes on and can be resumed.
    pub(crate) fn detach(&mut self, id: StreamId) {
        if let Some(stream) = self.known.get_mut(&id) {
            stream.live = None;
        }
    }

    pub(crate) fn forbid_resume(&mut self, id: StreamId) {
        if let Some(stream) = self.known.get_mut(&id) {
            stream.resumable = false;
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&mut self, id: StreamId) {
        if let Some(stream) = self.known.get_mut(&id) {
            stream.ended = true;
            stream.live = None;
        }
    }

    /// Drops the connections of those who listen; the streams go on and can be resumed.
    pub(crate) fn cut_listening(&mut self) {
        for stream in self.known.values_mut().filter(|stream| stream.listening) {
            stream.push(Outgoing::Cut);
            stream.live = None;
        }
    }

    pub(crate) fn end_listening(&mut self) {
        for stream in self.known.values_mut().filter(|stream| stream.listening) {
            stream.ended = true;
            stream.live = None;
        }
    }

    /// The one stream that carries what the server says unasked: the newest live one, or else the
    /// newest that a client may still resume.
    pub(crate) fn listening(&self) -> Option<StreamId> {
        let open = || self.known.iter().rev().filter(|(_, s)| s.listening && !s.ended);
        let live = open().find(|(_, stream)| stream.is_live());
        live.or_else(|| open().next()).map(|(id, _)| *id)
    }

    pub(crate) fn is_live(&self, id: StreamId) -> bool {
        self.known.get(&id).is_some_and(Stream::is_live)
    }
}

// === impl Stream ===

impl Stream {
    fn is_live(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.is_closed())
    }

    fn push(&mut self, outgoing: Outgoing) {
        let Some(live) = &self.live else { return };
        if live.try_send(outgoing).is_err() {
            self.live = None;
        }
    }
}

// === impl Event ===

impl Event {
    fn outgoing(&self, stream: Option<StreamId>) -> Outgoing {
        Outgoing::Message {
            event_id: stream.map(|stream| format!("{stream}-{}", self.number)),
            json: self.json.clone(),
            is_answer: self.is_answer,
        }
    }
}
