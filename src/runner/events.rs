//! `GET /coding/events`: what an engine says, from any point on, to whoever listens.
//!
//! Everything is read from the log on the disk, so a slow client costs one open connection and nothing else, and the
//! engine never waits for it. A cursor is the offset behind a line in the output of one start; whoever comes back with
//! the last one it got hears each line once, or is refused. Leaving only unsubscribes.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::protocol::{Cursor, Ended, EventsRequest, Gap, OutputLine};
use crate::runner::engine::{Engine, is_for};
use crate::runner::listeners::Subscription;
use crate::runner::output::{self, Cutter, Line, Piece};
use crate::runner::refusal::Refusal;
use crate::runner::shim::wire::OUT;
use crate::runner::{Runner, files};
use crate::session::Id;

/// How many bytes of output are read at once.
const CHUNK: usize = 64 * 1024;
/// How many events may wait for a client.
const AHEAD: usize = 16;
/// How many bytes of events may wait for a client; a larger one waits alone.
const AHEAD_BYTES: u32 = 1024 * 1024;

/// What a client hears: the engine that lives, or the end of the one that does not.
#[derive(Clone)]
pub(crate) enum Source {
    /// It lives.
    Living(Arc<Engine>),
    /// It is gone, and was launched under this generation.
    Ended(Box<Ended>, i64),
}

/// One client's way through an engine's output.
struct Reader {
    runner: Runner,
    source: Source,
    cutter: Cutter,
    /// From where on something is not kept any more, until it is known where whole lines go on.
    gap: Option<u64>,
    to: mpsc::Sender<(Event, OwnedSemaphorePermit)>,
    /// How many bytes of events may still wait for the client.
    room: Arc<Semaphore>,
}

impl Runner {
    /// Streams the output of the session's engine from the cursor on: what was, what comes, then exactly one end.
    pub(crate) async fn events(
        &self,
        request: EventsRequest,
    ) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Refusal> {
        let source = self.source(&request.session_id, request.owner_id.as_deref())?.not_before(request.generation)?;
        let from = request.cursor.unwrap_or_else(|| source.at(0));
        let cursor = self.place(from, &source).await?;
        let (to, events) = mpsc::channel(AHEAD);
        let (cutter, room) = (Cutter::at(cursor), Arc::new(Semaphore::new(AHEAD_BYTES as usize)));
        let reader = Reader { runner: self.clone(), source, cutter, gap: None, to, room };
        let client = request.client.unwrap_or_default().to_string();
        self.shared.tasks.spawn(reader.run(client));
        let items = futures_util::stream::unfold(events, |mut events| async {
            let (event, _room) = events.recv().await?;
            Some((Ok(event), events))
        });
        Ok(Sse::new(items))
    }

    /// Finds the engine of a session, or the record of its end, as far as `owner` may know of it.
    pub(crate) fn source(&self, id: &Id, owner: Option<&str>) -> Result<Source, Refusal> {
        let known = self.known();
        if let Some(session) = known.sessions.get(id).filter(|it| is_for(owner, it.owner_id.as_deref())) {
            return Ok(Source::Living(Arc::clone(session)));
        }
        let record = known.records.newest(id).filter(|it| is_for(owner, it.owner_id.as_deref()));
        let Some(record) = record else { return Err(Refusal::not_tracked(id, 0)) };
        let ended = record.told(&*self.settings().clock, &self.shared.boot_id);
        Ok(Source::Ended(Box::new(ended), record.start()))
    }

    /// Returns the cursor, if a line ends there, or nobody knows any more what was there.
    async fn at_a_line(&self, id: &Id, (folder, cursor): (PathBuf, Cursor)) -> Result<u64, Refusal> {
        let at = cursor.offset;
        let Some(before) = at.checked_sub(1) else { return Ok(at) };
        let read = files::aside(move || {
            let is_end = output::head(&folder)?.is_none_or(|head| head == at);
            Ok((is_end, output::read(&folder, before, 1)?))
        });
        let read = read.await.map_err(|error| Refusal::internal(format!("the output cannot be read: {error}")))?;
        match read {
            (false, Piece::Bytes(byte)) if byte != b"\n" => {
                let message = format!("the cursor {cursor} lies inside a line; only ids of events are cursors");
                Err(Refusal::bad(message).about(id, 0))
            }
            _ => Ok(at),
        }
    }

    /// Returns at which offset the client goes on, unless that is where no output ever was, or in another start's.
    pub(crate) async fn place(&self, cursor: Cursor, source: &Source) -> Result<u64, Refusal> {
        let start = source.start();
        if cursor.start != start {
            let message = format!(
                "the cursor {cursor} is of the start {} of the session, and this is its start {start}",
                cursor.start
            );
            return Err(Refusal::unsatisfiable(message).about(source.id(), source.generation()));
        }
        let (folder, _) = self.output_of(source);
        let looking = folder.clone();
        let head = files::aside(move || output::head(&looking)).await;
        let head = head.map_err(|error| Refusal::internal(format!("the output cannot be read: {error}")))?;
        let head = match (head, source) {
            // Nothing of it is kept any more, so nobody knows how far it went.
            (None, Source::Ended(..)) => return Ok(cursor.offset),
            (head, _) => head.unwrap_or(0),
        };
        if cursor.offset <= head {
            return self.at_a_line(source.id(), (folder, cursor)).await;
        }
        let message = format!("the cursor {cursor} lies behind the end of the output, which is {}", source.at(head));
        Err(Refusal::unsatisfiable(message).about(source.id(), source.generation()))
    }

    /// Returns where the output of an engine lies, and whether that is with its shim, from where it may be moved.
    pub(crate) fn output_of(&self, source: &Source) -> (PathBuf, bool) {
        let (id, generation) = (source.id(), source.generation());
        match source {
            Source::Living(engine) if self.holds(engine) => (self.dir().session(id).join(OUT), true),
            Source::Living(_) | Source::Ended(..) => (self.dir().output(id, generation), false),
        }
    }

    /// Reads at most `most` bytes of an engine's output from the offset `at` on, wherever it lies by now.
    pub(crate) async fn piece(&self, source: &Source, at: u64, most: usize) -> io::Result<Piece> {
        loop {
            let (folder, with_shim) = self.output_of(source);
            let piece = files::aside(move || output::read(&folder, at, most)).await;
            // When it was moved meanwhile, what was read may be a successor's.
            if !with_shim || self.output_of(source).1 {
                return piece;
            }
        }
    }

    /// Returns whether this very engine is held; the folder of its session is its own as long as it is.
    fn holds(&self, engine: &Arc<Engine>) -> bool {
        self.session(&engine.id).is_some_and(|held| Arc::ptr_eq(&held, engine))
    }
}

impl Source {
    /// Returns it, unless it is only the end of a start before the one that is meant.
    pub(crate) fn not_before(self, asked: Option<i64>) -> Result<Self, Refusal> {
        match (&self, asked) {
            (Self::Ended(ended, _), Some(asked)) if ended.generation < asked => {
                Err(Refusal::generation(&ended.session_id, asked, ended.generation))
            }
            _ => Ok(self),
        }
    }

    /// Returns which session it is of.
    pub(crate) fn id(&self) -> &Id {
        match self {
            Self::Living(engine) => &engine.id,
            Self::Ended(ended, _) => &ended.session_id,
        }
    }

    /// Returns under which generation it is known now: that of a living engine may be raised.
    pub(crate) fn generation(&self) -> i64 {
        match self {
            Self::Living(engine) => engine.facts().generation,
            Self::Ended(ended, _) => ended.generation,
        }
    }

    /// Returns under which generation it was launched.
    fn start(&self) -> i64 {
        match self {
            Self::Living(engine) => engine.start,
            Self::Ended(_, start) => *start,
        }
    }

    /// Returns the cursor at an offset of its output.
    pub(crate) fn at(&self, offset: u64) -> Cursor {
        Cursor { start: self.start(), offset }
    }
}

impl Reader {
    async fn run(mut self, client: String) {
        let leaving = self.runner.shared.leaving.clone();
        match self.source.clone() {
            Source::Ended(ended, _) => drop(self.finish(&ended).await),
            Source::Living(session) => {
                let subscription = session.listeners.subscribe(client);
                let (replaced, to) = (subscription.replaced.clone(), self.to.clone());
                tokio::select! {
                    () = leaving.cancelled() => {}
                    () = replaced.cancelled() => {}
                    _ = self.follow(&session, &subscription) => {}
                    () = to.closed() => {}
                }
            }
        }
    }

    /// Follows a living engine; none when the client is gone.
    async fn follow(&mut self, session: &Arc<Engine>, _subscription: &Subscription) -> Option<()> {
        let mut head = session.head();
        loop {
            head.borrow_and_update();
            self.catch_up().await?;
            let ended = tokio::select! {
                ended = session.gone() => ended,
                changed = head.changed() => {
                    if changed.is_err() { return None }
                    continue;
                }
                () = tokio::time::sleep(self.runner.settings().streams.ping_every) => {
                    self.send(Event::default().event("ping"), "{}".to_owned()).await?;
                    continue;
                }
            };
            return self.finish(&*ended?).await;
        }
    }

    /// Sends what is left, then the end.
    async fn finish(&mut self, ended: &Ended) -> Option<()> {
        self.catch_up().await?;
        let last = self.cutter.last();
        self.tell_gap().await?;
        if let Some(line) = last {
            self.line(line).await?;
        }
        let event = self.event("ended", self.cutter.done());
        self.send(event, serde_json::to_string(ended).ok()?).await
    }

    /// Sends all that is there by now; none when the client is gone.
    async fn catch_up(&mut self) -> Option<()> {
        loop {
            match self.runner.piece(&self.source, self.cutter.next(), CHUNK).await {
                Ok(Piece::Bytes(bytes)) => {
                    let lines = self.cutter.push(&bytes);
                    self.tell_gap().await?;
                    for line in lines {
                        self.line(line).await?;
                    }
                }
                Ok(Piece::Gap(to)) => {
                    self.gap.get_or_insert(self.cutter.done());
                    self.cutter.skip(to);
                }
                Ok(Piece::Nothing) => return Some(()),
                Err(error) => {
                    tracing::warn!(session_id = %self.source.id(), %error, "the output of an engine cannot be read");
                    return None;
                }
            }
        }
    }

    /// Tells of what is not kept any more, as soon as it is known where the next whole line begins: whoever comes back
    /// with that cursor must not get the rest of a line.
    async fn tell_gap(&mut self) -> Option<()> {
        let (Some(from), Some(to)) = (self.gap, self.cutter.whole_from()) else { return Some(()) };
        self.gap = None;
        let gap = Gap { from: self.source.at(from), to: self.source.at(to) };
        self.send(self.event("gap", to), serde_json::to_string(&gap).ok()?).await
    }

    async fn line(&self, line: Line) -> Option<()> {
        let told = OutputLine::new(self.source.at(line.end), line.text.as_deref());
        self.send(self.event("line", line.end), serde_json::to_string(&told).ok()?).await
    }

    /// Makes an event whose id is the cursor at an offset.
    fn event(&self, name: &str, offset: u64) -> Event {
        Event::default().event(name).id(self.source.at(offset).to_string())
    }

    /// Hands the client one event; none when it is gone, or takes nothing for too long.
    async fn send(&self, event: Event, data: String) -> Option<()> {
        let most = self.runner.settings().streams.silent_most;
        let bytes = u32::try_from(data.len()).map_or(AHEAD_BYTES, |bytes| bytes.min(AHEAD_BYTES));
        let sending = async {
            let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()?;
            self.to.send((event.data(data), room)).await.ok()
        };
        let Ok(sent) = tokio::time::timeout(most, sending).await else {
            tracing::warn!(session_id = %self.source.id(), "a client takes nothing of the events any more and is let go");
            return None;
        };
        sent
    }
}
