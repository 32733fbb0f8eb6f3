//! `Lander`: putting a craft down gently with little fuel. See the README for what each part is for.

use rlfast_envs::{Env, Episode, InfoField, LoadError, OptionsError, Outcome, Space, State, StepError};

/// Accelerations in m/s², of gravity and of the engine.
const GRAVITY: f32 = 1.6;
const THRUST: f32 = 4.0;
/// Seconds of a step.
const STEP: f32 = 0.1;
/// Burns in the tank.
const TANK: u32 = 60;
/// The craft survives touching down at this speed.
const GENTLE: f32 = 1.0;
const START: [f64; 2] = [20.0, 30.0];

/// A craft that falls onto the moon and can only fire its engine or not.
///
/// Observations are altitude in metres and velocity in m/s, upwards; action 1 burns, 0 does not. A gentle landing earns 1, a
/// crash costs 1, and either terminates the episode; a burn costs 0.01 and with an empty tank does nothing. `info` has `fuel`,
/// the burns that are left.
#[derive(Clone, Debug)]
pub struct Lander {
    altitude: f32,
    velocity: f32,
    fuel: u32,
    episode: Episode,
}

impl Lander {
    /// One that waits for its first reset.
    pub fn new() -> Self {
        Self { altitude: 0.0, velocity: 0.0, fuel: TANK, episode: Episode::new() }
    }

    fn write(&self, observation: &mut [f32]) {
        observation.copy_from_slice(&[self.altitude, self.velocity]);
    }
}

impl Default for Lander {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for Lander {
    type Observation = f32;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::vector::<f32>(&[0.0, f64::NEG_INFINITY], &[f64::INFINITY, f64::INFINITY])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset_with(&mut self, seed: Option<u64>, _options: &[f64], observation: &mut [f32]) -> Result<(), OptionsError> {
        let generator = self.episode.begin(seed);
        self.altitude = generator.uniform(START[0], START[1]) as f32;
        self.velocity = 0.0;
        self.fuel = TANK;
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0 | 1]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [f32]) -> Outcome {
        let burns = action[0] == 1 && self.fuel > 0;
        self.fuel -= u32::from(burns);
        self.velocity += STEP * (if burns { THRUST } else { 0.0 } - GRAVITY);
        self.altitude = (self.altitude + STEP * self.velocity).max(0.0);
        self.write(observation);

        let terminated = self.altitude == 0.0;
        self.episode.running = !terminated;
        let landing = match (terminated, self.velocity >= -GENTLE) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Outcome { reward: landing - if burns { 0.01 } else { 0.0 }, terminated, truncated: false }
    }

    fn info_fields(&self) -> Vec<InfoField> {
        vec![InfoField::scalar::<i64>("fuel")]
    }

    fn info(&self, info: &mut [f64]) {
        info.copy_from_slice(&[self.fuel.into()]);
    }

    fn save(&self, to: &mut Vec<u8>) {
        ([self.altitude, self.velocity], self.fuel).save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let (([altitude, velocity], fuel), episode) = State::load(from)?;
        if fuel > TANK {
            return Err(LoadError::Invalid("the tank is overfull"));
        }
        *self = Self { altitude, velocity, fuel, episode };
        Ok(())
    }
}
