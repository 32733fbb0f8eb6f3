//! Tests of vectors, with environments whose observations tell their whole history.

use super::*;
use crate::{OptionsError, Outcome, StepError};

/// An environment whose observation is (number of its episode, step in the episode), and whose episodes have as many
/// steps as its seed.
#[derive(Clone, Default)]
struct Counter {
    length: u64,
    episode: u64,
    steps: u64,
    running: bool,
}

impl Counter {
    fn show(&self, observation: &mut [i64]) {
        observation.copy_from_slice(&[self.episode as i64, self.steps as i64]);
    }
}

impl Env for Counter {
    type Observation = i64;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::MultiDiscrete { counts: vec![1 << 40; 2] }
    }

    fn action_space(&self) -> Space {
        Space::discrete(10)
    }

    fn reset_with(&mut self, seed: Option<u64>, _options: &[f64], observation: &mut [i64]) -> Result<(), OptionsError> {
        self.length = seed.unwrap_or(self.length);
        (self.episode, self.steps, self.running) = (self.episode + 1, 0, true);
        self.show(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        match action {
            _ if !self.running => Err(StepError::NeedsReset),
            [0..10] => Ok(()),
            _ => Err(StepError::action(action, &self.action_space())),
        }
    }

    fn step(&mut self, action: &[i64], observation: &mut [i64]) -> Outcome {
        self.steps += 1;
        self.running = self.steps < self.length;
        self.show(observation);
        let over = !self.running;
        // Odd episodes terminate, even ones are truncated.
        let terminated = over && self.episode % 2 == 1;
        Outcome { reward: action[0] as f64, terminated, truncated: over && !terminated }
    }

    fn info_fields(&self) -> Vec<InfoField> {
        vec![InfoField::scalar::<i64>("steps")]
    }

    fn info(&self, info: &mut [f64]) {
        info[0] = self.steps as f64;
    }

    fn save(&self, to: &mut Vec<u8>) {
        (self.length, self.episode, self.steps, self.running).save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let (length, episode, steps, running) = crate::State::load(from)?;
        *self = Self { length, episode, steps, running };
        Ok(())
    }
}

/// The results of a step.
#[derive(Clone, Debug, Default, PartialEq)]
struct Written {
    obs: Vec<[i64; 2]>,
    rew: Vec<f64>,
    terminated: Vec<u8>,
    truncated: Vec<u8>,
}

fn step(vector: &mut Vector<Counter>, ids: Option<&[usize]>, actions: &[i64]) -> Result<Written, VectorError> {
    let rows = actions.len();
    let mut to = Written {
        obs: vec![[-1; 2]; rows],
        rew: vec![-1.0; rows],
        terminated: vec![9; rows],
        truncated: vec![9; rows],
    };
    let output = Output {
        obs: to.obs.as_flattened_mut(),
        rew: &mut to.rew,
        terminated: &mut to.terminated,
        truncated: &mut to.truncated,
    };
    vector.step(ids, actions, output).map(|()| to)
}

/// Returns environments with episodes of `lengths` steps, after a reset.
fn counters(lengths: &[u64], autoreset: Autoreset) -> Vector<Counter> {
    let mut vector = Vector::new(vec![Counter::default(); lengths.len()], autoreset);
    let seeds: Vec<_> = lengths.iter().copied().map(Some).collect();
    let mut obs = vec![[-1; 2]; lengths.len()];
    vector.reset(None, &seeds, None, obs.as_flattened_mut()).expect("all can be reset");
    assert_eq!(obs, vec![[1, 0]; lengths.len()]);
    vector
}

#[test]
fn disabled_leaves_resets_to_the_caller() {
    let mut vector = counters(&[1, 9], Autoreset::Disabled);
    let written = step(&mut vector, None, &[3, 4]).expect("both are running");
    let wanted =
        Written { obs: vec![[1, 1], [1, 1]], rew: vec![3.0, 4.0], terminated: vec![1, 0], truncated: vec![0, 0] };
    assert_eq!(written, wanted);
    let refused = VectorError::Step { id: 0, error: StepError::NeedsReset };
    assert_eq!(step(&mut vector, None, &[0, 0]), Err(refused));
    let mut obs = [-1; 2];
    vector.reset(Some(&[0]), &[None], None, &mut obs).expect("it can be reset");
    assert_eq!(obs, [2, 0]);
    // Environment 1 did not move in the refused step.
    assert_eq!(step(&mut vector, None, &[0, 0]).expect("both are running").obs, [[2, 1], [1, 2]]);
}

#[test]
fn next_step_resets_in_a_step_of_its_own() {
    let mut vector = counters(&[1, 2], Autoreset::NextStep);
    step(&mut vector, None, &[1, 1]).expect("both are running");
    assert_eq!(vector.events(), &Events::default());
    // The illegal action is ignored, as the step only resets this environment.
    let written = step(&mut vector, None, &[-5, 2]).expect("the first only resets");
    let wanted =
        Written { obs: vec![[2, 0], [1, 2]], rew: vec![0.0, 2.0], terminated: vec![0, 1], truncated: vec![0, 0] };
    assert_eq!(written, wanted);
    assert_eq!((&vector.events().resets[..], &vector.events().ended[..]), (&[0][..], &[][..]));
    let written = step(&mut vector, None, &[3, 3]).expect("the second only resets");
    assert_eq!((written.obs, written.truncated), (vec![[2, 1], [2, 0]], vec![1, 0]));
    // A reset that comes first takes the place of the automatic one.
    vector.reset(Some(&[0]), &[Some(5)], None, &mut [0; 2]).expect("it can be reset");
    assert_eq!(step(&mut vector, None, &[1, 1]).expect("both are running").obs, [[3, 1], [2, 1]]);
}

#[test]
fn same_step_shows_the_next_episode_and_tells_the_end_of_the_last() {
    let mut vector = counters(&[1, 3, 1], Autoreset::SameStep);
    for episode in 1..3 {
        let written = step(&mut vector, None, &[1, 1, 2]).expect("all are running");
        assert_eq!(written.obs, [[episode + 1, 0], [1, episode], [episode + 1, 0]]);
        assert_eq!(written.rew, [1.0, 1.0, 2.0]);
        let odd = u8::from(episode == 1);
        assert_eq!((written.terminated, written.truncated), (vec![odd, 0, odd], vec![1 - odd, 0, 1 - odd]));
        let wanted = Events {
            resets: vec![],
            ended: vec![0, 2],
            final_obs: vec![episode, 1, episode, 1],
            final_info: vec![1.0, 1.0],
        };
        assert_eq!(vector.events(), &wanted);
        let mut info = [9.0; 3];
        vector.info(None, &mut info).expect("there are three infos");
        assert_eq!(info, [0.0, episode as f64, 0.0]);
    }
}

#[test]
fn subsets_come_in_the_order_asked() {
    let mut vector = counters(&[9, 9, 9, 1], Autoreset::SameStep);
    let written = step(&mut vector, Some(&[3, 1]), &[7, 8]).expect("both are running");
    assert_eq!((written.obs, written.rew), (vec![[2, 0], [1, 1]], vec![7.0, 8.0]));
    assert_eq!((&vector.events().ended[..], &vector.events().final_obs[..]), (&[0][..], &[1, 1][..]));
    let mut info = [9.0; 2];
    vector.info(Some(&[1, 0]), &mut info).expect("they exist");
    assert_eq!(info, [1.0, 0.0]);
    assert_eq!(step(&mut vector, Some(&[]), &[]).expect("nothing to do"), Written::default());
}

#[test]
fn nothing_steps_where_one_cannot() {
    let mut vector = counters(&[9; 3], Autoreset::NextStep);
    let fresh = Vector::new(vec![Counter::default(); 3], Autoreset::NextStep);
    let action = StepError::Action { got: "[10]".to_owned(), wanted: "integers from 0 to 9".to_owned() };
    type Case<'a> = (Option<&'a [usize]>, &'a [i64], VectorError);
    let cases: [Case<'_>; 5] = [
        (None, &[0, 0, 10], VectorError::Step { id: 2, error: action }),
        (None, &[0, 0], VectorError::Lengths { rows: 3 }),
        (Some(&[1]), &[0, 0], VectorError::Lengths { rows: 1 }),
        (Some(&[3]), &[0], VectorError::Unknown { id: 3, last: 2 }),
        (Some(&[2, 0, 2]), &[0; 3], VectorError::Twice { id: 2 }),
    ];
    for (ids, actions, error) in cases {
        assert_eq!(step(&mut vector, ids, actions), Err(error));
    }
    assert_eq!(step(&mut vector, None, &[0; 3]).expect("all are running").obs, [[1, 1]; 3]);
    let mut fresh = fresh;
    assert_eq!(step(&mut fresh, None, &[0; 3]), Err(VectorError::Step { id: 0, error: StepError::NeedsReset }));
    let (mut short, mut obs) = ([0; 5], [0; 6]);
    assert_eq!(vector.reset(None, &[None; 3], None, &mut short), Err(VectorError::Lengths { rows: 3 }));
    assert_eq!(vector.reset(None, &[None; 2], None, &mut obs), Err(VectorError::Lengths { rows: 3 }));
    assert_eq!(vector.info(None, &mut [0.0; 4]), Err(VectorError::Lengths { rows: 3 }));
}

#[test]
fn a_saved_environment_goes_on_in_another_vector() {
    for autoreset in [Autoreset::Disabled, Autoreset::NextStep, Autoreset::SameStep] {
        let mut one = counters(&[2, 5], autoreset);
        let mut other = counters(&[7, 7], autoreset);
        for _ in 0..2 {
            step(&mut one, None, &[1, 1]).expect("both are running");
        }
        for id in 0..2 {
            other.load(id, &one.save(id).expect("it exists")).expect("they are alike");
        }
        for _ in 0..4 {
            let ids = if autoreset == Autoreset::Disabled { &[1][..] } else { &[0, 1] };
            assert_eq!(
                step(&mut other, Some(ids), &[1, 1][..ids.len()]),
                step(&mut one, Some(ids), &[1, 1][..ids.len()])
            );
        }
    }
}

#[test]
fn a_broken_state_changes_nothing() {
    let mut vector = counters(&[5], Autoreset::NextStep);
    let state = vector.save(0).expect("it exists");
    let longer = [&state[..], &[0]].concat();
    for broken in [&state[..state.len() - 1], &longer, &[7]] {
        assert!(matches!(vector.load(0, broken), Err(VectorError::Load { id: 0, .. })), "{broken:?}");
        assert_eq!(vector.save(0).as_deref(), Ok(&state[..]));
    }
    assert_eq!(vector.load(1, &state), Err(VectorError::Unknown { id: 1, last: 0 }));
    assert_eq!(vector.save(1), Err(VectorError::Unknown { id: 1, last: 0 }));
}

#[test]
fn chunks_write_what_the_whole_would() {
    let lengths: Vec<_> = (0..23).map(|id| 1 + id % 4).collect();
    let some: Vec<usize> = (0..23).filter(|id| id % 3 != 1).collect();
    for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
        for ids in [None, Some(&some[..])] {
            let mut whole = counters(&lengths, autoreset);
            let actions: Vec<_> = (0..ids.map_or(23, <[usize]>::len)).map(|row| row as i64 % 10).collect();
            let mut shared: Vec<_> = [1, 2, 7, 16].map(|chunks| (chunks, counters(&lengths, autoreset))).into();
            for _ in 0..20 {
                let wanted = step(&mut whole, ids, &actions);
                for (chunks, vector) in &mut shared {
                    vector.sharing.always = Some(*chunks);
                    assert_eq!(step(vector, ids, &actions), wanted);
                    assert_eq!(vector.events(), whole.events());
                }
            }
        }
    }
}

#[test]
fn options_hold_for_one_start() {
    use crate::classic::{CartPole, MountainCar, Pendulum};
    fn starts<E: Env<Observation = f32> + Clone>(env: &E, options: &[Option<&[f64]>]) -> Vec<Vec<f32>> {
        let (mut vector, elements) =
            (Vector::new(vec![env.clone()], Autoreset::Disabled), env.observation_space().len());
        let reset = |&options: &Option<&[f64]>| {
            let mut obs = vec![0.0; elements];
            vector.reset(None, &[Some(5)], options, &mut obs).expect("it can start so");
            obs
        };
        options.iter().map(reset).collect()
    }
    let [usual, bounded, again, narrow] =
        &starts(&CartPole::default(), &[None, Some(&[-0.05, 0.05]), None, Some(&[1.5, 1.5])])[..]
    else {
        panic!("four starts")
    };
    assert_eq!((usual, usual, &vec![1.5; 4]), (bounded, again, narrow));
    assert_eq!(starts(&MountainCar::default(), &[Some(&[0.25, 0.25])]), [[0.25, 0.0]]);
    assert_eq!(starts(&Pendulum::default(), &[Some(&[0.0, 0.0])]), [[1.0, 0.0, 0.0]]);
}

#[test]
fn refused_options_change_nothing() {
    use crate::classic::{Acrobot, CartPole};
    let (mut vector, mut obs) = (Vector::new(vec![CartPole::default(); 2], Autoreset::NextStep), [0.0; 8]);
    vector.reset(None, &[Some(1), Some(2)], None, &mut obs).expect("both can be reset");
    let before = [0, 1].map(|id| vector.save(id).expect("it exists"));
    let mut reset = |options| vector.reset(None, &[Some(3), Some(4)], Some(options), &mut obs);
    assert_eq!(reset(&[0.0]), Err(VectorError::OptionCount { got: 1, wanted: 2 }));
    assert_eq!(
        reset(&[0.5, -0.5]).expect_err("not in order").to_string(),
        "a first state is drawn between a lower and an upper bound, both finite, got 0.5 and -0.5"
    );
    assert_eq!([0, 1].map(|id| vector.save(id).expect("it exists")), before);
    let mut far = Vector::new(vec![Acrobot::new()], Autoreset::NextStep);
    let refused = far.reset(None, &[Some(0)], Some(&[-1.0, 30.0]), &mut [0.0; 6]).expect_err("too far to wrap");
    assert!(refused.to_string().ends_with("within 28.2743 of 0, got -1 and 30"), "{refused}");
}
