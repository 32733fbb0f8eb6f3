//! Taxi: picking up a passenger and driving them to their destination.

use std::sync::Arc;

use super::table::{Branch, Table};
use crate::{Env, Episode, InfoField, LoadError, OptionsError, Outcome, Space, State, StepError};

/// The map, as Gymnasium prints it: a taxi can drive between two columns where there is a colon.
const MAP: [&[u8; 11]; 5] = [b"|R: | : :G|", b"| : | : : |", b"| : : : : |", b"| | : | : |", b"|Y| : |B: |"];
const SIZE: usize = 5;
/// Row and column of the places where passengers wait and want to go: red, green, yellow, blue.
const PLACES: [[usize; 2]; 4] = [[0, 0], [0, 4], [4, 0], [4, 3]];
/// The number of the passenger's place while in the taxi.
const ABOARD: usize = PLACES.len();
const STATES: usize = SIZE * SIZE * (ABOARD + 1) * PLACES.len();
const ACTIONS: usize = 6;
const PICK_UP: usize = 4;
const DROP_OFF: usize = 5;
/// For each move (south, north, east, west), the actions that move to its left and to its right.
const SIDES: [[usize; 2]; 4] = [[2, 3], [3, 2], [1, 0], [0, 1]];

/// The taxi problem of Dietterich (2000). With a [`TimeLimit`](crate::wrapper::TimeLimit) of 200 it is Gymnasium's
/// `Taxi-v4`.
///
/// An observation is `((row * 5 + column) * 5 + passenger) * 4 + destination`, where `passenger` is the number of a
/// place, 0 to 3, or 4 in the taxi. Actions 0 to 3 drive south, north, east and west, 4 picks up and 5 drops off. The
/// reward is -1 for a step, -10 for picking up or dropping off in the wrong place, and 20 for dropping off at the
/// destination, which terminates the episode.
///
/// `info` has `prob`, the probability of the last transition, and `action_mask`, which is 1 for actions that would
/// change the state.
#[derive(Clone, Debug)]
pub struct Taxi {
    table: Arc<Table>,
    /// The probability that the passenger changes the destination once in an episode; None if they never do.
    fickle: Option<f64>,
    at: usize,
    probability: f64,
    /// Whether the passenger will change the destination after the first move with them in the taxi.
    wavering: bool,
    episode: Episode,
}

/// The state that an observation encodes.
#[derive(Clone, Copy)]
struct Scene {
    taxi: [usize; 2],
    passenger: usize,
    destination: usize,
}

impl Scene {
    fn decoded(state: usize) -> Self {
        let (field, destination) = (state / PLACES.len(), state % PLACES.len());
        let (field, passenger) = (field / (ABOARD + 1), field % (ABOARD + 1));
        Self { taxi: [field / SIZE, field % SIZE], passenger, destination }
    }

    fn encoded(self) -> usize {
        let field = self.taxi[0] * SIZE + self.taxi[1];
        (field * (ABOARD + 1) + self.passenger) * PLACES.len() + self.destination
    }

    /// Returns the field to which one of the four moves leads, which is the present one if the way is blocked.
    fn driven(self, action: usize) -> Option<[usize; 2]> {
        let [row, column] = self.taxi;
        match action {
            0 => (row + 1 < SIZE).then_some([row + 1, column]),
            1 => (row > 0).then(|| [row - 1, column]),
            2 => (MAP[row][2 * column + 2] == b':').then(|| [row, column + 1]),
            _ => (MAP[row][2 * column] == b':').then(|| [row, column - 1]),
        }
    }

    /// Returns whether an action would change the state.
    fn can(self, action: usize) -> bool {
        match action {
            PICK_UP => self.passenger < ABOARD && self.taxi == PLACES[self.passenger],
            DROP_OFF => self.passenger == ABOARD && PLACES.contains(&self.taxi),
            _ => self.driven(action).is_some(),
        }
    }

    fn start_weight(self) -> f64 {
        f64::from(u8::from(self.passenger < ABOARD && self.passenger != self.destination))
    }

    fn picked_up(self) -> Branch {
        if !self.can(PICK_UP) {
            return certain(self, -10.0, false);
        }
        certain(Self { passenger: ABOARD, ..self }, -1.0, false)
    }

    fn dropped_off(self) -> Branch {
        match PLACES.iter().position(|&place| place == self.taxi && self.passenger == ABOARD) {
            Some(passenger) if passenger == self.destination => certain(Self { passenger, ..self }, 20.0, true),
            Some(passenger) => certain(Self { passenger, ..self }, -1.0, false),
            None => certain(self, -10.0, false),
        }
    }

    /// Returns the transitions of a move. In rain the taxi moves in the direction of the action with probability `dry`,
    /// and otherwise to either side of it; where the way is blocked it stays.
    fn moved(self, action: usize, dry: Option<f64>) -> Vec<Branch> {
        let ahead = self.driven(action);
        let to = |taxi: Option<[usize; 2]>| Self { taxi: taxi.unwrap_or(self.taxi), ..self };
        let Some(dry) = dry else { return vec![certain(to(ahead), -1.0, false)] };
        let aside = |side: usize| to(ahead.and_then(|_| self.driven(SIDES[action][side])));
        let drift = (1.0 - dry) / 2.0;
        [(dry, to(ahead)), (drift, aside(0)), (drift, aside(1))]
            .map(|(probability, scene)| Branch { probability, ..certain(scene, -1.0, false) })
            .into()
    }
}

fn certain(scene: Scene, reward: f64, terminated: bool) -> Branch {
    Branch { probability: 1.0, state: scene.encoded(), reward, terminated }
}

impl Taxi {
    /// Returns an environment that must be reset first.
    ///
    /// `rain` is the probability of moving in the direction of the action: 0.8 in Gymnasium with `is_rainy=True`, None
    /// without. `fickle` is the probability that the passenger changes the destination once, after the first move with
    /// them in the taxi: 0.3 with `fickle_passenger=True`, None without.
    ///
    /// # Errors
    /// If one of them is not a probability.
    pub fn new(rain: Option<f64>, fickle: Option<f64>) -> Result<Self, String> {
        for (name, value) in [("rainy_probability", rain), ("fickle_probability", fickle)] {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                return Err(format!("{name} is a probability, from 0 to 1; got {value}"));
            }
        }
        let weights: Vec<f64> = (0..STATES).map(|state| Scene::decoded(state).start_weight()).collect();
        let starts: f64 = weights.iter().sum();
        let start = weights.into_iter().map(|weight| weight / starts).collect();
        let table = Table::new(start, ACTIONS, |state, action| {
            let scene = Scene::decoded(state);
            match action {
                PICK_UP => vec![scene.picked_up()],
                DROP_OFF => vec![scene.dropped_off()],
                _ => scene.moved(action, rain),
            }
        });
        let (table, episode) = (Arc::new(table), Episode::new());
        Ok(Self { table, fickle, at: 0, probability: 1.0, wavering: false, episode })
    }

    /// Returns `to`, with another destination if the passenger changes it after this move.
    fn reconsidered(&mut self, to: usize) -> usize {
        let (before, after) = (Scene::decoded(self.at), Scene::decoded(to));
        if !(self.wavering && before.passenger == ABOARD && before.taxi != after.taxi) {
            return to;
        }
        self.wavering = false;
        let other = self.episode.generator.below(PLACES.len() as u64 - 1) as usize;
        // Numbers from the old destination on are one higher, as it is left out.
        let destination = other + usize::from(other >= before.destination);
        Scene { destination, ..after }.encoded()
    }
}

impl Env for Taxi {
    type Observation = i64;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::discrete(STATES as i64)
    }

    fn action_space(&self) -> Space {
        Space::discrete(ACTIONS as i64)
    }

    fn reset_with(&mut self, seed: Option<u64>, _options: &[f64], observation: &mut [i64]) -> Result<(), OptionsError> {
        let generator = self.episode.begin(seed);
        self.at = self.table.start(generator);
        self.probability = 1.0;
        self.wavering = self.fickle.is_some_and(|probability| generator.random() < probability);
        observation.copy_from_slice(&[self.at as i64]);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0..=5]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [i64]) -> Outcome {
        let branch = self.table.step(self.at, action[0] as usize, &mut self.episode.generator);
        self.at = self.reconsidered(branch.state);
        self.probability = branch.probability;
        self.episode.running = !branch.terminated;
        observation.copy_from_slice(&[self.at as i64]);
        Outcome { reward: branch.reward, terminated: branch.terminated, truncated: false }
    }

    fn info_fields(&self) -> Vec<InfoField> {
        vec![InfoField::scalar::<f64>("prob"), InfoField::vector::<i8>("action_mask", ACTIONS)]
    }

    fn info(&self, info: &mut [f64]) {
        let scene = Scene::decoded(self.at);
        let can: [f64; ACTIONS] = std::array::from_fn(|action| f64::from(u8::from(scene.can(action))));
        info[0] = self.probability;
        info[1..].copy_from_slice(&can);
    }

    fn save(&self, to: &mut Vec<u8>) {
        (self.at as u64, self.probability, self.wavering).save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ((at, probability, wavering), episode): ((u64, _, _), _) = State::load(from)?;
        if at >= STATES as u64 {
            return Err(LoadError::Invalid("there is no such place for the taxi"));
        }
        *self = Self { table: Arc::clone(&self.table), at: at as usize, probability, wavering, episode, ..*self };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
