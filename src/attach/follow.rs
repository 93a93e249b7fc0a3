//! One client's way through what a session's engine says, over restarts of its runner.
//!
//! The runner keeps the output; a follower holds a cursor and at most one event. When the runner breaks off, it is asked
//! again from that cursor, less and less often, and meanwhile the client hears pings. Each line comes once, and exactly
//! one end.

use std::time::Duration;

use tokio::time::Instant;

use crate::attach::{Event, Live};
use crate::clock;
use crate::protocol::{Cursor, EventsRequest, HistoryRequest, LiveAnswer, LiveRequest};
use crate::runner_client::{EventKind, EventStream, OutputReply, RunnerEvent, Target};
use crate::session::{Id, Session, Status};
use crate::tools::Tools;
use crate::verbs::{VerbError, once_ready, runner_of};
use crate::verdict::Verdict;

/// How long a runner that broke off is left alone, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long a client hears nothing at most, while nothing comes from the runner.
const PING_EVERY: Duration = Duration::from_secs(15);
/// How long the last words of an ended session are waited for, from a runner that does not answer.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// One client's way.
pub struct Follower {
    tools: Tools,
    session: Session,
    /// What the runner knows the client by: another name for each follower, the same at each attempt.
    listener: Id,
    cursor: Option<Cursor>,
    /// The client is to be told where things stand before anything else: nothing goes on from where it was.
    anew: bool,
    phase: Phase,
    /// How long the next attempt waits.
    pause: Duration,
    /// When the client last heard something.
    heard: Instant,
    /// Since when the runner has not been heard.
    lost: Option<Instant>,
}

enum Phase {
    /// The runner is to be asked.
    Calling,
    Listening(EventStream),
    Over,
}

/// What came of asking a runner to listen.
enum Call {
    Event(Event),
    Listening,
    /// It does not answer, or not yet.
    Later,
    /// It answers, and has nothing of the session.
    Nothing,
}

impl Follower {
    /// Begins with where things stand: at the head of the output with the half-written text of the turn, or behind
    /// `cursor`.
    ///
    /// # Errors
    /// When there is no cursor to begin at and the runner of an open session does not say where it stands; when the store
    /// fails.
    pub async fn begin(tools: &Tools, session: Session, cursor: Option<Cursor>) -> Result<(Live, Self), VerbError> {
        let now = clock::timer();
        let mut this = Self {
            tools: tools.clone(),
            session,
            listener: Id::new(),
            cursor,
            anew: false,
            phase: Phase::Calling,
            pause: Duration::ZERO,
            heard: now,
            lost: None,
        };
        let live = this.live().await?;
        Ok((live, this))
    }

    /// Returns the next event; none after the end. The caller may stop asking at any time: nothing is left behind.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = match &mut self.phase {
                Phase::Over => return None,
                Phase::Listening(stream) => match stream.next().await {
                    Some(event) => self.take(event),
                    None => {
                        self.phase = Phase::Calling;
                        None
                    }
                },
                Phase::Calling => self.call().await,
            };
            if let Some(event) = event {
                self.heard = clock::timer();
                return Some(event);
            }
        }
    }

    /// Takes in an event of the runner; none when it is nothing new.
    fn take(&mut self, event: RunnerEvent) -> Option<Event> {
        (self.pause, self.lost) = (Duration::ZERO, None);
        let RunnerEvent { kind, cursor, data } = event;
        match (kind, cursor) {
            (EventKind::Ping, _) => Some(Event::Ping),
            (EventKind::Ended, cursor) => {
                self.phase = Phase::Over;
                Some(Event::Ended { cursor, data })
            }
            (EventKind::Line | EventKind::Gap, Some(cursor)) if self.cursor.is_none_or(|known| cursor > known) => {
                self.cursor = Some(cursor);
                Some(if kind == EventKind::Line { Event::Line { cursor, data } } else { Event::Gap { cursor, data } })
            }
            (EventKind::Line | EventKind::Gap, _) => None,
        }
    }

    /// Asks the runner to go on from the cursor, after a pause that grows with each attempt in vain.
    async fn call(&mut self) -> Option<Event> {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).clamp(PAUSE.0, PAUSE.1);
        let lost = *self.lost.get_or_insert_with(clock::timer);
        match self.try_call().await {
            Call::Event(event) => return Some(event),
            Call::Listening => return None,
            Call::Nothing if !self.session.is_open() => return Some(self.over()),
            Call::Later if !self.session.is_open() && self.is_hopeless(lost) => return Some(self.over()),
            Call::Later | Call::Nothing => {}
        }
        (clock::timer().duration_since(self.heard) >= PING_EVERY).then_some(Event::Ping)
    }

    /// Returns whether nobody will tell the last words of a session that has ended.
    fn is_hopeless(&self, lost: Instant) -> bool {
        let machine_gone = self.session.end_reason.as_deref() == Some(Verdict::MachineGone.as_str());
        machine_gone || clock::timer().duration_since(lost) >= LAST_WORDS
    }

    /// Tells the end as the row has it.
    fn over(&mut self) -> Event {
        self.phase = Phase::Over;
        Event::ended_by_row(&self.session, self.cursor)
    }

    async fn try_call(&mut self) -> Call {
        if self.read_row().await || self.anew {
            return self.begin_anew().await;
        }
        let Ok(target) = self.target().await else { return Call::Later };
        let request = EventsRequest {
            session_id: self.session.id.clone(),
            cursor: self.cursor,
            generation: Some(self.session.generation),
            client: Some(self.listener.clone()),
            owner_id: self.session.owner_id.clone(),
        };
        match self.tools.runners.events(&target, &request).await {
            Ok(OutputReply::There(stream)) => {
                self.phase = Phase::Listening(stream);
                Call::Listening
            }
            // It is a cursor of another start, so nothing goes on from there.
            Ok(OutputReply::BadCursor(_)) => self.begin_anew().await,
            Ok(OutputReply::NotTracked | OutputReply::Ended { .. } | OutputReply::Unsupported) => Call::Nothing,
            Ok(OutputReply::Refused { message: why, .. }) => self.not_yet(&why),
            Err(why) => self.not_yet(&why.to_string()),
        }
    }

    fn not_yet(&self, why: &str) -> Call {
        tracing::debug!(session_id = %self.session.id, runner_id = %self.session.runner_id, why, "events are waited for");
        Call::Later
    }

    /// Reads the row again, and returns whether the session is on another runner by now.
    async fn read_row(&mut self) -> bool {
        // What cannot be read now is read at the next attempt.
        let Ok(Some(row)) = self.tools.store.find_session(&self.session.id).await else { return false };
        let moved = row.runner_id != self.session.runner_id;
        self.session = row;
        moved
    }

    /// Says where things stand now, since nothing goes on from where the client was.
    async fn begin_anew(&mut self) -> Call {
        (self.cursor, self.anew) = (None, true);
        let Ok(live) = self.live().await else { return Call::Later };
        self.anew = false;
        Call::Event(Event::Live(Box::new(live)))
    }

    async fn target(&self) -> Result<Target, VerbError> {
        runner_of(&self.tools, &self.session.runner_id).await
    }

    /// Asks where things stand, and takes over the cursor. The client's is dropped where the engine is of another start.
    async fn live(&mut self) -> Result<Live, VerbError> {
        let mut answer = self.ask().await?;
        if let (Some(cursor), Some(there)) = (self.cursor, &answer)
            && cursor.start != there.cursor.start
        {
            self.cursor = None;
            answer = self.ask().await?;
        }
        let resumed = self.cursor.is_some();
        let (state, text, head) = match answer {
            Some(answer) => (Some(answer.session), answer.text, Some(answer.cursor)),
            None if resumed => (None, String::new(), None),
            None => (None, String::new(), self.head().await?),
        };
        let text = if resumed { String::new() } else { text };
        self.cursor = self.cursor.or(head);
        let session = self.session.clone();
        Ok(Live { session, state, text, cursor: self.cursor, resumed })
    }

    /// Asks the runner how the engine stands; none when there is no engine, or the client can begin without knowing.
    async fn ask(&self) -> Result<Option<LiveAnswer>, VerbError> {
        let runner = &self.session.runner_id;
        // Whoever has a cursor, or wants only what is left or what will come, goes on when the runner is there.
        let may_wait = self.cursor.is_some() || self.session.status != Status::Active;
        let refused = |why: String| if may_wait { Ok(None) } else { Err(VerbError::Runner(why)) };
        let target = match self.target().await {
            Ok(target) => target,
            Err(VerbError::Runner(why)) => return refused(why),
            Err(error) => return Err(error),
        };
        let (session_id, owner_id) = (self.session.id.clone(), self.session.owner_id.clone());
        let (generation, textless) = (Some(self.session.generation), self.cursor.is_some());
        let request = LiveRequest { session_id, generation, textless, owner_id };
        let ask = || self.tools.runners.live(&target, &request);
        let reply = if may_wait { ask().await } else { once_ready(&self.tools, &target, ask).await };
        match reply {
            Ok(OutputReply::There(answer)) => Ok(Some(answer)),
            Ok(OutputReply::Ended { .. }) => Ok(None),
            Ok(OutputReply::NotTracked) if may_wait => Ok(None),
            Ok(OutputReply::NotTracked) => Err(VerbError::not_tracked(&self.session)),
            Ok(OutputReply::Refused { message, .. } | OutputReply::BadCursor(message)) => {
                refused(format!("runner {runner}: {message}"))
            }
            Ok(OutputReply::Unsupported) => refused(format!("runner {runner} tells no events")),
            Err(why) => refused(format!("runner {runner} does not say where the session stands: {why}")),
        }
    }

    /// Returns where the output of an engine that is gone ends; none when nobody says, and of one that is not there yet.
    async fn head(&self) -> Result<Option<Cursor>, VerbError> {
        if self.session.status == Status::Starting {
            return Ok(None);
        }
        let target = match self.target().await {
            Ok(target) => target,
            Err(VerbError::Runner(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (session_id, owner_id) = (self.session.id.clone(), self.session.owner_id.clone());
        let request = HistoryRequest { session_id, after: None, limit: None, tail: Some(1), owner_id };
        let Ok(OutputReply::There(page)) = self.tools.runners.history(&target, &request).await else { return Ok(None) };
        Ok(Some(page.cursor))
    }
}
