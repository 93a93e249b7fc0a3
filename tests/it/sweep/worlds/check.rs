//! What must be true in every world, by its own books and by rules written down a second time.

use sexton::entry::{Entry, EntryKind};
use sexton::protocol::{EngineState, Told};
use sexton::session::{Id, Session, Status};
use sexton::time::{HOUR, MINUTE};

use crate::support::world::assert_adds_up;
use crate::sweep::worlds::history::{History, Kind, Member};

const WINDOW: i64 = 6 * HOUR;

/// Says whether an engine may be stopped, as the design puts it.
fn is_free(state: &EngineState) -> bool {
    let idle = state.idle_ms.value().unwrap_or(0);
    let working = state.generating == Told::Is(true) && state.turn_silent_ms.unwrap_or(0) < 30 * MINUTE
        || state.background_tasks.value().unwrap_or(0) > 0 && state.background_silent_ms.unwrap_or(0) < 24 * HOUR
        || state.awaiting_input == Told::Is(true) && state.awaiting_ms.unwrap_or(0) < 24 * HOUR
        || state.next_wake_in_ms.is_some_and(|due| due > -30 * MINUTE);
    let unknown = state.generating == Told::Unknown && idle < 24 * HOUR;
    idle >= WINDOW && !working && !unknown
}

impl History {
    /// Checks what must be true at any time.
    pub(super) async fn check(&self) {
        self.reports.iter().for_each(assert_adds_up);
        for place in &self.places {
            for stop in place.runner.script().stops.clone() {
                let used = self.used.lock().unwrap()[&stop.session_id];
                if place.kind == Kind::Foreign {
                    assert!(used > stop.at || stop.at.since(used) >= WINDOW, "used at {used}, stopped: {stop:?}");
                } else {
                    assert!(is_free(&stop.state), "stopped in use: {stop:?}");
                }
            }
        }
        for member in &self.members {
            let row = self.world.read(&member.row).await;
            self.check_row(member, &row).await;
        }
    }

    /// No row is closed as reaped by a stop before there was one, and each end has its one entry.
    async fn check_row(&self, member: &Member, row: &Session) {
        let entries = self.world.entries(row, EntryKind::Ended).await;
        let of_generation = entries.iter().map(|entry| i64::from(entry.generation == row.generation)).sum::<i64>();
        let given = i64::from(member.row.status == Status::Ended && row.generation == member.row.generation);
        let expected = row.reopened + i64::from(!row.is_open()) - given;
        assert_eq!(of_generation, expected, "{row:?}: {entries:?}");
        let stopped = ["idle", "stalled", "awaiting_expired"];
        if row.end_reason.as_deref().is_some_and(|reason| stopped.contains(&reason)) {
            let stops = self.places[member.place].runner.script().stops.clone();
            let before = stops.iter().any(|stop| stop.session_id == row.id && Some(stop.at) <= row.ended_at);
            assert!(before, "closed before it was stopped: {row:?}");
        }
    }

    /// Returns the open sessions that nothing keeps, on runners that answer.
    pub(super) async fn due(&self) -> Vec<Id> {
        let mut due = Vec::new();
        for member in &self.members {
            let row = self.world.read(&member.row).await;
            let used = row.last_used().unwrap().max(self.used.lock().unwrap()[&row.id]);
            let kind = self.places[member.place].kind;
            // Where no runner measures silence, only waking time counts; at most all of the sleep came after the last use.
            let (free, slept) = match self.state_now(member.place, &row.id) {
                _ if kind == Kind::Hostile => (false, 0),
                None => (true, self.slept),
                Some(_) if kind == Kind::Foreign => (true, self.slept),
                Some((generation, state)) => (generation == row.generation && is_free(&state), 0),
            };
            if row.is_open() && free && self.world.now().since(used) - slept >= WINDOW {
                due.push(row.id);
            }
        }
        due
    }

    /// After the faults: what was due is closed, and every stop of a true runner stands in the timeline, once.
    pub(super) async fn check_finished(&self, due: &[Id]) {
        for id in due {
            let row = self.world.store().find_session(id).await.unwrap().unwrap();
            assert!(!row.is_open(), "still open: {row:?}\n{:#?}", self.reports.last());
        }
        for place in self.places.iter().filter(|place| place.kind == Kind::True) {
            let stops = place.runner.script().stops.clone();
            for stop in stops {
                let member = self.members.iter().find(|member| member.row.id == stop.session_id).unwrap();
                let mut entries = self.world.entries(&member.row, EntryKind::Ended).await;
                entries.extend(self.world.entries(&member.row, EntryKind::Stopped).await);
                let told = entries.iter().filter(|entry| tells_of(entry, stop.generation)).count();
                assert_eq!(told, 1, "{stop:?}: {entries:?}");
            }
            assert!(
                place
                    .runner
                    .script()
                    .ended
                    .iter()
                    .all(|(_, record)| self.is_ahead(record.generation, &record.session_id))
            );
        }
    }

    /// Says whether a record is of a start that its row does not know, which stays with the runner.
    fn is_ahead(&self, generation: i64, session: &Id) -> bool {
        self.members.iter().any(|member| member.row.id == *session && generation > member.row.generation)
    }
}

fn tells_of(entry: &Entry, generation: i64) -> bool {
    let outcome = entry.evidence["outcome"].as_str();
    entry.generation == generation && matches!(outcome, Some("stopped" | "already_stopped"))
}
