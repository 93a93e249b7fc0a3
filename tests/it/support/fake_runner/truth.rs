//! What a runner that does its duty answers. It decides with the same function that the worker nominates with.

use serde_json::{Value, json};
use sexton::clock::Clock;
use sexton::policy::engine::{EngineSays, may_stop};
use sexton::protocol::{
    Because, EndMode, EndOutcome, EndRequest, Ended, ForgetRequest, MessageRequest, Origin, PROTOCOL, SessionRequest,
    StartRequest, Told, TouchOutcome, TouchRequest, TrackedSession,
};
use sexton::session::Id;
use sexton::time::{Ms, SECOND};

use crate::support::fake_runner::{Call, FakeEngine, Guard, Raw, Script, Stop, Verb};

/// How old the answer may be that a stop rests on.
const STAMP_HOLDS: Ms = 60 * SECOND;

impl Script {
    /// Does what is asked, and answers.
    pub(super) fn truly(&mut self, call: &Call, clock: &dyn Clock) -> Raw {
        if self.foreign {
            return self.as_foreign(call, clock);
        }
        match call.verb {
            Verb::Sessions => self.sessions(call, clock),
            Verb::Health => self.say(200, &json!({"engines": ["fake"], "sessions": self.engines.len()})),
            Verb::End => self.with(call, clock, Self::end),
            Verb::Touch => self.with(call, clock, Self::touch),
            Verb::Messages => self.with(call, clock, Self::message),
            Verb::Start => self.with(call, clock, Self::start),
            Verb::Forget => self.with(call, clock, Self::forget),
            Verb::Interrupt => self.with(call, clock, Self::interrupt),
            Verb::Clear => self.with(call, clock, Self::clear),
        }
    }

    /// Makes an answer about the session and generation that the call names.
    pub(super) fn about(&self, call: &Call, status: u16, fields: &Value) -> Raw {
        let mut body = json!({"session_id": call.body["session_id"], "generation": call.body["generation"]});
        merge(&mut body, fields);
        self.say(status, &body)
    }

    fn say(&self, status: u16, fields: &Value) -> Raw {
        let origin =
            Origin { protocol: PROTOCOL, runner_id: self.runner_id.clone(), epoch: self.epoch, ready: self.ready };
        let mut body = serde_json::to_value(origin).unwrap();
        merge(&mut body, fields);
        Raw::json(status, body.to_string())
    }

    fn with<T: serde::de::DeserializeOwned>(
        &mut self,
        call: &Call,
        clock: &dyn Clock,
        act: fn(&mut Self, &Call, &T, &dyn Clock) -> Raw,
    ) -> Raw {
        match serde_json::from_value(call.body.clone()) {
            Ok(request) => act(self, call, &request, clock),
            Err(error) => self.fail(call, 400, "bad_request", &error.to_string()),
        }
    }

    fn fail(&self, call: &Call, status: u16, outcome: &str, message: &str) -> Raw {
        self.about(call, status, &json!({"outcome": outcome, "message": message}))
    }

    fn sessions(&self, call: &Call, clock: &dyn Clock) -> Raw {
        let ask = call.query.strip_prefix("ask=").unwrap_or_default();
        let ended: Vec<Ended> = self
            .ended
            .iter()
            .map(|(at, record)| Ended { ended_ago_ms: Some(clock.elapsed() - at), ..record.clone() })
            .collect();
        let stamp = format!("{}:{}", self.epoch, clock.elapsed());
        let mut fields = json!({"stamp": stamp, "ask": ask, "complete": self.complete && self.ready,
            "tracked": self.tracked(clock.awake()), "ended": ended});
        if let Some(state_id) = &self.state_id {
            merge(&mut fields, &json!({"state_id": state_id}));
        }
        self.say(200, &fields)
    }

    fn tracked(&self, awake: Ms) -> Vec<TrackedSession> {
        let engines = self.engines.iter();
        engines.map(|(session_id, engine)| tracked(session_id, engine, awake)).collect()
    }

    fn end(&mut self, call: &Call, request: &EndRequest, clock: &dyn Clock) -> Raw {
        let record = self.record_of(&request.session_id, request.generation);
        if let Some(record) = record {
            return self.about_end(call, EndOutcome::AlreadyStopped, &record);
        }
        if !self.ready {
            return self.fail(call, 503, "not_ready", "The runner does not know all its engines yet.");
        }
        let Some(engine) = self.engines.get(&request.session_id) else {
            return match self.highest_ended.get(&request.session_id) {
                Some(highest) => self.refuse(call, Because::Generation, None, Some(*highest)),
                None => self.about(call, 404, &json!({"outcome": EndOutcome::NotTracked})),
            };
        };
        let state = engine.state_at(clock.awake());
        let idle = state.idle_ms.value();
        if engine.generation != request.generation && self.lacks != Some(Guard::Generation) {
            let highest = self.highest_ended.get(&request.session_id).copied();
            return self.refuse(call, Because::Generation, idle, highest);
        }
        if request.mode == EndMode::IfIdle {
            if self.lacks != Some(Guard::Stamp) && !self.is_fresh(request.stamp.as_deref(), clock.elapsed()) {
                return self.refuse(call, Because::Stale, idle, None);
            }
            let Some(limits) = request.limits else {
                return self.fail(call, 400, "bad_request", "A stop on a condition needs its limits.");
            };
            match may_stop(&state, &limits) {
                EngineSays::MayStop(_) => {}
                _ if self.lacks == Some(Guard::Condition) => {}
                EngineSays::Protected { because, .. } => return self.refuse(call, because, idle, None),
                EngineSays::Undetermined => return self.refuse(call, Because::Active, idle, None),
            }
        }
        self.stop(request, clock);
        // Not looked up: without its guard the engine may be of another generation than was asked for.
        let (_, record) = self.ended.last().cloned().unwrap();
        if self.lacks == Some(Guard::Records) {
            self.ended.pop();
            self.highest_ended.remove(&request.session_id);
        }
        self.about_end(call, EndOutcome::Stopped, &record)
    }

    fn record_of(&self, session_id: &Id, generation: i64) -> Option<Ended> {
        let fits = |record: &&(Ms, Ended)| record.1.session_id == *session_id && record.1.generation == generation;
        self.ended.iter().find(fits).map(|(_, record)| record.clone())
    }

    fn about_end(&self, call: &Call, outcome: EndOutcome, record: &Ended) -> Raw {
        let mut fields = serde_json::to_value(record).unwrap();
        merge(&mut fields, &json!({"outcome": outcome}));
        self.about(call, 200, &fields)
    }

    fn refuse(&self, call: &Call, because: Because, idle_ms: Option<Ms>, highest: Option<i64>) -> Raw {
        self.about(
            call,
            409,
            &json!({"outcome": EndOutcome::Refused, "because": because, "idle_ms": idle_ms, "highest_generation": highest}),
        )
    }

    fn is_fresh(&self, stamp: Option<&str>, elapsed: Ms) -> bool {
        let parts = stamp.and_then(|stamp| stamp.split_once(':'));
        parts.is_some_and(|(epoch, at)| {
            epoch.parse() == Ok(self.epoch) && at.parse().is_ok_and(|at: Ms| elapsed - at <= STAMP_HOLDS)
        })
    }

    fn stop(&mut self, request: &EndRequest, clock: &dyn Clock) {
        let engine = &self.engines[&request.session_id];
        let (generation, state) = (engine.generation, engine.state_at(clock.awake()));
        let (session_id, sweep_id) = (request.session_id.clone(), request.sweep_id.clone());
        self.stops.push(Stop { session_id, generation, at: clock.now(), sweep_id, state });
        self.end_by_itself(&request.session_id, &request.reason, clock);
        if let Some((_, record)) = self.ended.last_mut() {
            record.sweep_id = request.sweep_id.clone();
            record.freed_bytes = Some(412_000_000);
        }
    }

    /// Lets an engine end for this reason, unasked, and remembers it.
    pub(crate) fn end_by_itself(&mut self, session_id: &Id, reason: &str, clock: &dyn Clock) {
        let engine = self.engines.remove(session_id).expect("the fake runner holds such an engine");
        let highest = self.highest_ended.entry(session_id.clone()).or_default();
        *highest = engine.generation.max(*highest);
        let record = json!({"session_id": session_id, "generation": engine.generation, "reason": reason,
            "engine_session_id": engine.conversation,
            "exit": {"code": 0}, "stages": [{"stage": "stdin_closed", "at_ms": 0}, {"stage": "empty", "at_ms": 1_200}]});
        self.ended.push((clock.elapsed(), serde_json::from_value(record).unwrap()));
    }

    fn touch(&mut self, call: &Call, request: &TouchRequest, clock: &dyn Clock) -> Raw {
        match self.find(call, &request.session_id, request.generation) {
            Err(refusal) => refusal,
            Ok(engine) => {
                engine.use_at(clock.awake());
                self.done(call, &request.session_id, clock, &json!({"outcome": TouchOutcome::Touched}))
            }
        }
    }

    fn message(&mut self, call: &Call, request: &MessageRequest, clock: &dyn Clock) -> Raw {
        match self.find(call, &request.session_id, request.generation) {
            Err(refusal) => refusal,
            Ok(engine) => {
                engine.use_at(clock.awake());
                let again = request.message_id.as_ref().is_some_and(|id| engine.message_ids.contains(id));
                if !again {
                    engine.messages.push(request.text.clone());
                    engine.message_ids.extend(request.message_id.clone());
                }
                let turn = if request.wait { json!({"turn": "over"}) } else { json!({}) };
                self.done(call, &request.session_id, clock, &turn)
            }
        }
    }

    fn interrupt(&mut self, call: &Call, request: &SessionRequest, clock: &dyn Clock) -> Raw {
        match self.find(call, &request.session_id, request.generation) {
            Err(refusal) => refusal,
            Ok(engine) => {
                engine.use_at(clock.awake());
                engine.interrupts += 1;
                self.about(call, 200, &json!({}))
            }
        }
    }

    fn clear(&mut self, call: &Call, request: &SessionRequest, clock: &dyn Clock) -> Raw {
        match self.find(call, &request.session_id, request.generation) {
            Err(refusal) => refusal,
            Ok(engine) => {
                engine.use_at(clock.awake());
                engine.conversation = Some("fresh".to_owned());
                self.about(call, 200, &json!({}))
            }
        }
    }

    fn start(&mut self, call: &Call, request: &StartRequest, clock: &dyn Clock) -> Raw {
        let (session_id, generation) = (&request.session_id, request.generation);
        match (self.engines.get_mut(session_id), self.highest_ended.get(session_id)) {
            (Some(engine), _) if engine.generation > generation => {
                let highest = engine.generation;
                self.other_generation(call, highest)
            }
            (Some(engine), _) => {
                engine.generation = generation;
                engine.use_at(clock.awake());
                self.done(call, session_id, clock, &json!({}))
            }
            (None, Some(highest)) if generation <= *highest => self.other_generation(call, *highest),
            (None, _) => {
                let state = sexton::protocol::EngineState { idle_ms: Told::Is(0), ..Default::default() };
                let mut engine = FakeEngine::new(generation, state, clock.awake());
                engine.conversation.clone_from(&request.engine_session_id);
                self.engines.insert(session_id.clone(), engine);
                self.done(call, session_id, clock, &json!({}))
            }
        }
    }

    fn forget(&mut self, call: &Call, request: &ForgetRequest, _: &dyn Clock) -> Raw {
        self.ended
            .retain(|(_, record)| record.session_id != request.session_id || record.generation != request.generation);
        self.about(call, 200, &json!({}))
    }

    fn done(&self, call: &Call, session_id: &Id, clock: &dyn Clock, fields: &Value) -> Raw {
        let session = self.engines.get(session_id).map(|engine| tracked(session_id, engine, clock.awake()));
        let mut body = json!({"session": session});
        merge(&mut body, fields);
        self.about(call, 200, &body)
    }

    /// Finds the engine of this generation, or the answer that says why there is none.
    fn find(&mut self, call: &Call, session_id: &Id, generation: i64) -> Result<&mut FakeEngine, Raw> {
        let held = self.engines.get(session_id).map(|engine| engine.generation);
        match (held, self.record_of(session_id, generation)) {
            (Some(held), _) if held == generation => Ok(self.engines.get_mut(session_id).unwrap()),
            (_, Some(record)) => Err(self.about(
                call,
                410,
                &json!({"outcome": "ended", "message": "The engine is gone.", "reason": record.reason}),
            )),
            (Some(held), None) => Err(self.other_generation(call, held)),
            (None, None) => Err(self.fail(call, 404, "not_tracked", "The runner has no such session.")),
        }
    }

    fn other_generation(&self, call: &Call, highest: i64) -> Raw {
        self.about(
            call,
            409,
            &json!({"outcome": "generation", "message": "The engine belongs to another start of the session.",
                "highest_generation": highest}),
        )
    }

    /// Answers as a runner that someone else wrote: it knows no condition and no other route.
    fn as_foreign(&mut self, call: &Call, clock: &dyn Clock) -> Raw {
        match (call.verb, &call.session_id) {
            (Verb::Sessions, _) if self.tells_states => {
                let mut tracked = self.tracked(clock.awake());
                tracked.iter_mut().for_each(|session| session.generation = None);
                Raw::json(200, json!({"tracked": tracked}).to_string())
            }
            (Verb::Sessions, _) => {
                let ids: Vec<&Id> = self.engines.keys().collect();
                Raw::json(200, json!({"tracked": ids}).to_string())
            }
            (Verb::End, Some(session_id)) => match self.engines.remove(session_id) {
                Some(engine) => {
                    let session_id = session_id.clone();
                    let state = engine.state_at(clock.awake());
                    let (generation, at) = (engine.generation, clock.now());
                    self.stops.push(Stop { session_id, generation, at, sweep_id: None, state });
                    Raw::bare(200)
                }
                None => Raw::bare(404),
            },
            _ => Raw::bare(404),
        }
    }
}

fn tracked(session_id: &Id, engine: &FakeEngine, awake: Ms) -> TrackedSession {
    TrackedSession {
        generation: Some(engine.generation),
        start: Some(engine.start),
        state: engine.state_at(awake),
        engine_session_id: engine.conversation.clone(),
        ..TrackedSession::bare(session_id.clone())
    }
}

fn merge(body: &mut Value, fields: &Value) {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
}
