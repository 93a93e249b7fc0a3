//! What happens in a random world: its runners and sessions, its faults, its passes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sexton::activity::touch_once;
use sexton::clock::Clock;
use sexton::protocol::{EngineState, Told};
use sexton::report::{PartName, SweepReport};
use sexton::session::{ActivityKind, Id, Session, Status};
use sexton::store::Begun;
use sexton::time::{HOUR, MINUTE, Ms, SECOND, UtcMs};

use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::rows::begin;
use crate::support::world::{World, id, silent, spawn_sweep};
use crate::sweep::worlds::dice::Dice;

/// What kind of runner stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Speaks the protocol and does its duty, apart from faults.
    True,
    /// Someone else wrote it.
    Foreign,
    /// Speaks the protocol, and never answers with a set that may be believed.
    Hostile,
}

pub(super) struct Place {
    pub(super) id: Id,
    pub(super) kind: Kind,
    pub(super) runner: FakeRunner,
}

/// A session, and what this world itself knows of it.
pub(super) struct Member {
    pub(super) row: Session,
    pub(super) place: usize,
}

pub(super) struct History {
    pub(super) world: World,
    pub(super) places: Vec<Place>,
    pub(super) members: Vec<Member>,
    /// When each session was last used, by this world's own books.
    pub(super) used: Arc<Mutex<BTreeMap<Id, UtcMs>>>,
    pub(super) reports: Vec<SweepReport>,
    /// How long this host has slept in all.
    pub(super) slept: Ms,
    dice: Dice,
}

impl History {
    /// Plays one world from its beginning to its end, and returns how many engines were stopped and rows closed.
    pub(super) async fn play(seed: u64) -> (usize, usize) {
        let mut history = Self::begin(seed).await;
        for _ in 0..3 + history.dice.below(4) {
            history.round().await;
            history.check().await;
        }
        history.heal();
        // Longer than any back-off.
        history.world.clock.advance(31 * MINUTE);
        let due = history.due().await;
        for _ in 0..2 {
            let report = history.world.sweep().await;
            history.reports.push(report);
            history.world.clock.advance(SECOND);
        }
        history.check().await;
        history.check_finished(&due).await;
        let stops = history.places.iter().map(|place| place.runner.script().stops.len()).sum();
        let parts = [PartName::Observe, PartName::Idle, PartName::Orphans];
        let reaps = history.reports.iter().flat_map(|report| parts.map(|part| report.part(part).reaped)).sum::<u64>();
        (stops, usize::try_from(reaps).unwrap())
    }

    async fn begin(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let world = World::with(|config| config.safety.max_stops_per_runner = 100).await;
        let mut places = Vec::new();
        for number in 0..1 + dice.below(3) {
            let runner = FakeRunner::with_clock(Arc::new(world.clock.clone())).await;
            let name = format!("r{number}");
            let kind = dice.pick(&[Kind::True, Kind::True, Kind::True, Kind::Foreign, Kind::Hostile]);
            runner.script().runner_id = id(&name);
            runner.script().foreign = kind == Kind::Foreign;
            world.enrol(&runner, &name).await;
            places.push(Place { id: id(&name), kind, runner });
        }
        let mut history =
            Self { world, places, members: Vec::new(), used: Arc::default(), reports: Vec::new(), slept: 0, dice };
        // Each runner has been seen once, so that one that speaks the protocol is held to it.
        let first = history.world.sweep().await;
        history.reports.push(first);
        for number in 0..2 + history.dice.below(9) {
            history.add(number).await;
        }
        history
    }

    async fn add(&mut self, number: usize) {
        let ages = [0, MINUTE, 4 * MINUTE, 6 * MINUTE, HOUR, 6 * HOUR - 1, 6 * HOUR, 7 * HOUR, 30 * HOUR];
        let (idle, place) = (self.dice.pick(&ages), self.dice.below(self.places.len()));
        let generation = self.dice.pick(&[1, 1, 1, 2]);
        let status = self.dice.pick(&[Status::Active, Status::Active, Status::Active, Status::Starting, Status::Ended]);
        let (now, runner_id) = (self.world.now(), self.places[place].id.clone());
        let row = self
            .world
            .session(&format!("s{number}"), idle, |row| {
                (row.runner_id, row.generation, row.status) = (runner_id, generation, status);
                if status == Status::Ended {
                    (row.ended_at, row.end_reason) = (Some(now.minus(1)), Some("orphaned".to_owned()));
                }
            })
            .await;
        if !self.dice.one_in(4) {
            let held = if self.dice.one_in(6) { self.dice.pick(&[1, 2, 3]) } else { generation };
            let state = self.state();
            self.places[place].runner.hold_engine(&row.id, held, state);
        }
        self.used.lock().unwrap().insert(row.id.clone(), now.minus(idle));
        self.members.push(Member { row, place });
    }

    fn state(&mut self) -> EngineState {
        let ages = [0, MINUTE, HOUR, 6 * HOUR - 1, 6 * HOUR, 7 * HOUR, 25 * HOUR];
        let (idle, silence) = (self.dice.pick(&ages), self.dice.pick(&ages));
        let quiet = silent(idle.max(silence));
        match self.dice.below(9) {
            0 => EngineState { generating: Told::Is(true), turn_silent_ms: Some(silence), ..quiet },
            1 => EngineState { background_tasks: Told::Is(2), background_silent_ms: Some(silence), ..quiet },
            2 => EngineState { awaiting_input: Told::Is(true), awaiting_ms: Some(silence), ..quiet },
            3 => EngineState { generating: Told::Unknown, ..quiet },
            4 => EngineState { next_wake_in_ms: Some(HOUR), ..quiet },
            _ => quiet,
        }
    }

    /// One round: faults, uses, perhaps an exit or a new start, a pass or two at once, and time.
    async fn round(&mut self) {
        for place in 0..self.places.len() {
            self.fault(place);
        }
        for _ in 0..self.dice.below(3) {
            self.touch().await;
        }
        self.change_an_engine().await;
        self.come_back_in_the_middle();
        if self.dice.one_in(4) {
            let second = self.world.second_process().await;
            let passes = [self.world.spawn_sweep(), spawn_sweep(&second)];
            for pass in passes {
                self.reports.push(pass.await.unwrap());
            }
        } else {
            self.reports.push(self.world.sweep().await);
        }
        for place in &self.places {
            place.runner.unhook();
            place.runner.script().behave();
        }
        let times: [Ms; 7] = [1, SECOND, 31 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR];
        self.world.clock.advance(self.dice.pick(&times));
        if self.dice.one_in(5) {
            self.world.clock.sleep(8 * HOUR);
            self.slept += 8 * HOUR;
        }
    }

    fn fault(&mut self, place: usize) {
        let lost = |then: Answering| Answering::DoThen(Box::new(then));
        let faults = [
            Answering::Reset,
            Answering::CutOff,
            lost(Answering::Reset),
            lost(Answering::Raw(Raw::bare(500))),
            Answering::Raw(Raw::bare(500)),
            Answering::Raw(Raw::bare(401)),
            Answering::Raw(Raw::json(200, r#"{"tracked":null}"#)),
            Answering::Raw(Raw::json(200, "<html>")),
        ];
        let spoken = [
            Answering::Accept,
            Answering::Altered(json!({"generation": 9, "ask": "earlier"})),
            Answering::Altered(json!({"runner_id": "other"})),
            Answering::Altered(json!({"session_id": "other", "complete": false})),
        ];
        let Place { kind, runner, .. } = &self.places[place];
        if *kind == Kind::Hostile {
            runner.answer(Verb::Sessions, None, self.dice.pick(&faults));
            return;
        }
        for verb in [Verb::Sessions, Verb::End, Verb::Forget, Verb::Touch] {
            if !self.dice.one_in(4) {
                continue;
            }
            let foreign = *kind == Kind::Foreign;
            let answer = if foreign || self.dice.one_in(2) { self.dice.pick(&faults) } else { self.dice.pick(&spoken) };
            // A 200 of a foreign runner is its word that it stopped the engine, and none but `end` has that other answer.
            let word = foreign && verb == Verb::End && matches!(&answer, Answering::Raw(raw) if raw.status == 200);
            let odd = word || verb != Verb::End && answer == Answering::Accept;
            let answer = if odd { Answering::Reset } else { answer };
            match self.dice.one_in(2) {
                true => runner.answer(verb, None, answer),
                false => runner.answer_once(verb, None, answer),
            }
        }
    }

    async fn touch(&mut self) {
        let member = &self.members[self.dice.below(self.members.len())];
        let row = self.world.read(&member.row).await;
        if !row.is_open() {
            return;
        }
        let kind = self.dice.pick(ActivityKind::ALL);
        if touch_once(&self.world.tools, &row, kind).await.unwrap().counts() {
            self.used.lock().unwrap().insert(row.id, self.world.now());
        }
    }

    async fn change_an_engine(&mut self) {
        let which = self.dice.below(self.members.len());
        let Member { row, place } = &self.members[which];
        let place = &self.places[*place];
        if place.kind != Kind::True {
            return;
        }
        let held = place.runner.script().engines.contains_key(&row.id);
        if held && self.dice.one_in(6) {
            place.runner.script().end_by_itself(&row.id, "exited", &self.world.clock);
        } else if self.dice.one_in(6) {
            let row = self.world.read(row).await;
            let begun = begin(self.world.store(), &row, &row.runner_id, self.world.now()).await;
            if let Begun::Done(row) = begun {
                place.runner.hold_engine(&row.id, row.generation, silent(0));
                self.world.store().mark_active(&row.id, row.generation, self.world.now()).await.unwrap();
                self.used.lock().unwrap().insert(row.id.clone(), self.world.now());
            }
        }
    }

    /// Lets somebody use each session right when a stop of it arrives, on runners that check conditions.
    fn come_back_in_the_middle(&mut self) {
        for place in self.places.iter().filter(|place| place.kind == Kind::True) {
            if !self.dice.one_in(4) {
                continue;
            }
            let (tools, used) = (self.world.tools.clone(), Arc::clone(&self.used));
            place.runner.hook(Verb::End, When::Arrived, move |call| {
                let (tools, used) = (tools.clone(), Arc::clone(&used));
                async move {
                    let row = tools.store.find_session(&call.session_id.unwrap()).await.unwrap().unwrap();
                    let heard = touch_once(&tools, &row, ActivityKind::Message).await.unwrap();
                    if row.is_open() && heard.counts() {
                        used.lock().unwrap().insert(row.id, tools.clock.now());
                    }
                }
            });
        }
    }

    fn heal(&mut self) {
        for place in self.places.iter().filter(|place| place.kind != Kind::Hostile) {
            place.runner.script().behave();
        }
        for place in self.places.iter().filter(|place| place.kind == Kind::Hostile) {
            place.runner.answer(Verb::Sessions, None, Answering::Raw(Raw::bare(500)));
        }
    }

    /// Returns what an engine is doing now.
    pub(super) fn state_now(&self, place: usize, session: &Id) -> Option<(i64, EngineState)> {
        let script = self.places[place].runner.script();
        script.engines.get(session).map(|engine| (engine.generation, engine.state_at(self.world.clock.awake())))
    }
}
