//! `GET /coding/live`: what an engine is doing, the half-written text of its turn, and where its events go on.
//!
//! State, text and cursor rest on the same lines: whoever takes the text and then the events behind the cursor has the
//! whole turn, each line once. The text is read from the log on the disk whenever it is asked for, so it costs an engine
//! nothing as long as nobody looks, and a restart of the runner loses none of it.

use std::sync::Arc;

use crate::protocol::{Cursor, LiveAnswer, LiveRequest};
use crate::runner::Runner;
use crate::runner::draft::Draft;
use crate::runner::engine::Engine;
use crate::runner::engines::{Adapter, adapter};
use crate::runner::events::Source;
use crate::runner::output::{Cutter, Line, Piece};
use crate::runner::refusal::Refusal;

/// How many bytes of a turn's output are read for its text; of a longer one only the newest.
const READ_MOST: u64 = 8 * 1024 * 1024;
/// How many bytes are read at once.
const CHUNK: u64 = 256 * 1024;

impl Runner {
    /// Says how the session's engine stands and what it has written in the turn that runs.
    pub(crate) async fn live(&self, request: &LiveRequest) -> Result<LiveAnswer, Refusal> {
        let source = self.source(&request.session_id, request.owner_id.as_deref())?;
        let engine = match source.not_before(request.generation)? {
            Source::Living(engine) => engine,
            Source::Ended(ended, _) => return Err(Refusal::ended(&ended.session_id, ended.generation, &ended.reason)),
        };
        let (now, stall_after) = (self.settings().clock.awake(), self.settings().stall_after);
        let (session, generation, turn, read_to, adapter) = {
            let facts = engine.facts();
            let session = engine.element(&facts, now, stall_after);
            (session, facts.generation, facts.turn_from, facts.read_to, reader(&engine, &*facts.adapter))
        };
        let text = match turn {
            Some(from) if from < read_to && !request.textless => self.draft(&engine, adapter, (from, read_to)).await?,
            Some(_) | None => String::new(),
        };
        let (origin, session_id) = (self.origin(), engine.id.clone());
        let cursor = Cursor { start: engine.start, offset: read_to };
        Ok(LiveAnswer { origin, session_id, generation, session, text, cursor })
    }

    /// Puts together what the lines between two offsets say.
    async fn draft(
        &self,
        engine: &Arc<Engine>,
        adapter: Box<dyn Adapter>,
        (from, to): (u64, u64),
    ) -> Result<String, Refusal> {
        let source = Source::Living(Arc::clone(engine));
        let mut draft = Draft::default();
        let mut cutter = Cutter::at(from);
        if to - from > READ_MOST {
            cutter.skip(to - READ_MOST);
        }
        while cutter.next() < to {
            let most = usize::try_from((to - cutter.next()).min(CHUNK)).unwrap_or_default();
            let piece = self.piece(&source, cutter.next(), most).await;
            match piece.map_err(|error| Refusal::internal(format!("the output cannot be read: {error}")))? {
                Piece::Bytes(bytes) => add(&mut draft, &*adapter, cutter.push(&bytes)),
                Piece::Gap(next) => cutter.skip(next),
                Piece::Nothing => break,
            }
        }
        add(&mut draft, &*adapter, cutter.last());
        Ok(draft.text())
    }
}

fn add(draft: &mut Draft, adapter: &dyn Adapter, lines: impl IntoIterator<Item = Line>) {
    let texts = lines.into_iter().filter_map(|line| line.text);
    texts.filter_map(|text| adapter.written(&text)).for_each(|written| draft.add(written));
}

/// Returns an adapter that knows what the engine's knows, so that its lock is not held while much is read.
fn reader(engine: &Engine, known: &dyn Adapter) -> Box<dyn Adapter> {
    let mut reader = adapter(engine.spec.adapter);
    reader.restore(&known.save());
    reader
}
