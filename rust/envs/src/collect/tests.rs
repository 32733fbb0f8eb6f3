use rlfast_core::memory::Storage;
use rlfast_core::nn::{Drawing, Node, Weights};
use rlfast_core::pool;
use rlfast_core::replay::Config;
use rlfast_core::replay::layout::Leaf;
use rlfast_core::rng::Stream;
use rlfast_core::rng::draws::{bounded, epsilon_greedy};

use super::*;
use crate::registry::Arguments;
use crate::requests::make;
use crate::vector::{Output, Values, ValuesMut};

struct Source64(Stream);

impl BitSource for Source64 {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u64() as u32
    }
    fn next_double(&mut self) -> f64 {
        self.0.uniform()
    }
}

const ENVS: usize = 5;

fn leaf(path: &[&str], dtype: &str, itemsize: usize, shape: &[usize]) -> Leaf {
    let path = path.iter().map(|&key| key.to_owned()).collect();
    Leaf { path, dtype: dtype.to_owned(), itemsize, shape: shape.to_vec() }
}

fn replay() -> Replay {
    let config = Config {
        capacities: vec![40; ENVS],
        save_obs_next: true,
        stack_num: 1,
        sample_avail: false,
        alpha: None,
        beta: 1.0,
        weight_norm: true,
        seed: 0,
        storage: Storage::Ram,
    };
    let mut replay = Replay::new(config).unwrap();
    let flag = |name| leaf(&[name], "|b1", 1, &[]);
    replay
        .define(vec![
            leaf(&["obs"], "<f4", 4, &[4]),
            leaf(&["act"], "<i8", 8, &[]),
            leaf(&["rew"], "<f8", 8, &[]),
            flag("terminated"),
            flag("truncated"),
            leaf(&["obs_next"], "<f4", 4, &[4]),
            leaf(&["info", "env_id"], "<i8", 8, &[]),
            flag("done"),
        ])
        .unwrap();
    replay
}

fn envs(obs: &mut [f32]) -> Box<dyn AnyVector> {
    envs_with("Disabled", obs)
}

fn envs_with(autoreset: &str, obs: &mut [f32]) -> Box<dyn AnyVector> {
    let mut envs = make("CartPole-v1", ENVS as i64, autoreset, None, Arguments::default()).unwrap();
    let seeds: Vec<_> = (0..ENVS as u64).map(Some).collect();
    envs.reset(None, &seeds, None, ValuesMut::Float32(obs)).unwrap();
    envs
}

/// A linear network that pushes towards the side to which the pole falls, and the weights that it refers to.
fn network() -> (Network, Vec<f32>) {
    let numbers = vec![0.0, 0.1, -1.0, -1.0, 0.0, -0.1, 1.0, 1.0];
    // SAFETY: the caller keeps the vector, whose memory does not move with it.
    let weight = unsafe { Weights::new(numbers.as_ptr(), 8) }.unwrap();
    let node = Node::Linear { input: 0, weight, bias: None, outputs: 2, turned: false, relu: false };
    (Network::new(4, vec![node]).unwrap(), numbers)
}

/// All that a collection leaves behind.
type Left = (Collected, Vec<f32>, Vec<usize>, Limit, Vec<Vec<u8>>, Vec<usize>);

fn collected(limit: Limit, epsilon: f64, steps: usize) -> Left {
    let mut obs = vec![0.0; 4 * ENVS];
    let (mut envs, mut replay) = (envs(&mut obs), replay());
    let (network, _kept) = network();
    let mut source = Source64(Stream::new(7));
    let mut all = Collected::default();
    let mut running = CollectState { obs: &mut obs, ready: (0..ENVS).collect(), limit };
    loop {
        let limit = running.limit.clone();
        if steps > 0 {
            running.limit = Limit::Steps(steps);
        }
        let noise = Acting::Epsilon { epsilon, count: 2, source: &mut source };
        let one = collect(&mut *envs, &mut replay, Some(&network), &mut running, noise).unwrap();
        if steps > 0 {
            let Limit::Steps(left) = limit else { panic!("only steps are divided") };
            running.limit = Limit::Steps(left - steps);
        }
        all.vector_steps += one.vector_steps;
        all.steps += one.steps;
        all.returns.extend(one.returns);
        all.lengths.extend(one.lengths);
        all.stale.extend(one.stale);
        assert!(!one.undecided);
        if running.limit.reached(&running.ready) {
            break;
        }
    }
    let (ready, limit) = (running.ready, running.limit);
    let states = (0..ENVS).map(|id| envs.save(id).unwrap()).collect();
    let sizes = replay.rings().iter().map(|ring| ring.live()).collect();
    (all, obs, ready, limit, states, sizes)
}

#[test]
fn a_collection_equals_the_steps_that_it_consists_of() {
    let (done, obs, ready, limit, states, sizes) = collected(Limit::Steps(60), 0.8, 0);
    let mut now = vec![0.0; 4 * ENVS];
    let mut vector = envs(&mut now);
    let mut source = Source64(Stream::new(7));
    let (mut returns, mut running) = (Vec::new(), [0.0; ENVS]);
    for _ in 0..60 {
        let mut actions: Vec<i64> =
            now.chunks(4).map(|o| i64::from(0.2 * -o[1] + 2.0 * o[2] + 2.0 * o[3] > 0.0)).collect();
        epsilon_greedy(&mut source, 0.8, 2, &mut actions, &mut [false; ENVS]);
        let (mut rew, mut ends, mut cuts) = ([0.0; ENVS], [0; ENVS], [0; ENVS]);
        let obs = ValuesMut::Float32(&mut now);
        let output = Output { obs, rew: &mut rew, terminated: &mut ends, truncated: &mut cuts };
        vector.step(None, Values::Int64(&actions), output).unwrap();
        for id in 0..ENVS {
            running[id] += rew[id];
            if ends[id] + cuts[id] > 0 {
                returns.push(std::mem::take(&mut running[id]));
                vector.reset(Some(&[id]), &[None], None, ValuesMut::Float32(&mut now[4 * id..][..4])).unwrap();
            }
        }
    }
    assert!(returns.len() > 5, "episodes ended");
    assert_eq!((done.vector_steps, done.steps, &done.returns), (60, 60 * ENVS, &returns));
    assert_eq!(done.lengths, returns.iter().map(|&r| r as i64).collect::<Vec<_>>());
    assert_eq!((obs, ready, limit), (now, (0..ENVS).collect(), Limit::Steps(0)));
    assert_eq!(states, (0..ENVS).map(|id| vector.save(id).unwrap()).collect::<Vec<_>>());
    assert_eq!(sizes, [40; ENVS]);
}

#[test]
fn pauses_and_threads_change_nothing() {
    let whole = collected(Limit::Steps(60), 0.3, 0);
    assert_eq!(collected(Limit::Steps(60), 0.3, 15), whole);
    pool::set_threads(3);
    assert_eq!(collected(Limit::Steps(60), 0.3, 0), whole);
}

#[test]
fn limits_of_episodes_take_environments_out() {
    let (done, _, ready, limit, _, _) = collected(Limit::Episodes(12), 0.9, 0);
    assert_eq!((done.returns.len(), limit, ready.len()), (12, Limit::Episodes(0), 0));
    assert_eq!(done.stale.len(), ENVS, "each is left out after its last episode");
    let quotas = vec![3, 0, 1, 1, 2];
    let mut obs = vec![0.0; 4 * ENVS];
    let (mut envs, mut replay) = (envs(&mut obs), replay());
    let (network, _kept) = network();
    let mut running = CollectState { obs: &mut obs, ready: vec![0, 2, 3, 4], limit: Limit::Quotas(quotas) };
    let noise = Acting::Epsilon { epsilon: 1.0, count: 2, source: Source64(Stream::new(1)) };
    let done = collect(&mut *envs, &mut replay, Some(&network), &mut running, noise).unwrap();
    assert_eq!((done.returns.len(), running.limit), (7, Limit::Quotas(vec![0; ENVS])));
    assert_eq!(replay.rings()[1].live(), 0);
    let mut stale = done.stale;
    stale.sort_unstable();
    assert_eq!(stale, [0, 2, 3, 4]);
}

#[test]
fn a_choice_that_is_too_near_stops_before_the_step() {
    let mut obs = vec![0.0; 4 * ENVS];
    let (mut envs, mut replay) = (envs(&mut obs), replay());
    let (network, _kept) = network();
    obs[4..8].fill(0.0); // both outputs are 0
    let before = obs.clone();
    let mut source = Source64(Stream::new(7));
    let mut running = CollectState { obs: &mut obs, ready: (0..ENVS).collect(), limit: Limit::Steps(3) };
    let noise = Acting::Epsilon { epsilon: 0.5, count: 2, source: &mut source };
    let done = collect(&mut *envs, &mut replay, Some(&network), &mut running, noise).unwrap();
    assert!(done.undecided && done.vector_steps == 0);
    assert_eq!((running.limit, &*running.obs, source.0), (Limit::Steps(3), &before[..], Stream::new(7)));
    assert_eq!(replay.rings().live(), 0);
}

fn streams() -> Vec<Source64> {
    (0..ENVS as u64).map(|id| Source64(Stream::new(id))).collect()
}

/// Steps environments 1 and 3 with actions that `draw` gives, and compares what is left with what `noise` leaves.
fn compare_random(noise: Acting<'_, impl BitSource>, mut draw: impl FnMut() -> [i64; 2]) {
    let mut obs = vec![0.0; 4 * ENVS];
    let (mut envs, mut replay) = (envs(&mut obs), replay());
    let mut running = CollectState { obs: &mut obs, ready: vec![1, 3], limit: Limit::Steps(6) };
    let done = collect(&mut *envs, &mut replay, None, &mut running, noise).unwrap();
    assert_eq!((done.vector_steps, done.rows, done.undecided), (6, vec![0, 6, 0, 6, 0], false));
    let mut now = vec![0.0; 4 * ENVS];
    let mut vector = self::envs(&mut now);
    let mut sum = 0;
    for _ in 0..6 {
        let drawn = draw();
        let (mut rew, mut ends, mut cuts, mut next) = ([0.0; 2], [0; 2], [0; 2], [0.0; 8]);
        let obs = ValuesMut::Float32(&mut next);
        let output = Output { obs, rew: &mut rew, terminated: &mut ends, truncated: &mut cuts };
        vector.step(Some(&[1, 3]), Values::Int64(&drawn), output).unwrap();
        now[4..8].copy_from_slice(&next[..4]);
        now[12..16].copy_from_slice(&next[4..]);
        sum += drawn[0] + drawn[1];
    }
    assert!(sum > 0 && sum < 12, "both actions were drawn");
    assert_eq!(&*running.obs, &now[..]);
    for id in 0..ENVS {
        assert_eq!(envs.save(id).unwrap(), vector.save(id).unwrap());
    }
}

#[test]
fn uniform_actions_are_drawn_from_the_stream_of_each_environment() {
    let (mut sources, mut expected) = (streams(), streams());
    let draw = || [1, 3].map(|id: usize| bounded(&mut expected[id], 2));
    compare_random(Acting::Uniform { count: 2, sources: &mut sources }, draw);
    for (source, expected) in sources.iter().zip(&expected) {
        assert_eq!(source.0, expected.0);
    }
}

#[test]
fn uniform_actions_are_drawn_from_one_stream_for_all_environments() {
    let (mut source, mut expected) = (Source64(Stream::new(5)), Source64(Stream::new(5)));
    let draw = || {
        let drawn: Vec<i64> = (0..ENVS).map(|_| (expected.next_double() * 2.0) as i64).collect();
        [drawn[1], drawn[3]]
    };
    compare_random(Acting::Shared { count: 2, source: &mut source }, draw);
    assert_eq!(source.0, expected.0);
}

#[test]
fn all_actions_but_uniform_ones_come_from_a_network() {
    let (network, _kept) = network();
    let refused = |network: Option<&Network>, noise: Acting<'_, Source64>| {
        let mut obs = vec![0.0; 4 * ENVS];
        let (mut envs, mut replay) = (envs(&mut obs), replay());
        let mut running = CollectState { obs: &mut obs, ready: vec![0], limit: Limit::Steps(1) };
        collect(&mut *envs, &mut replay, network, &mut running, noise).unwrap_err().to_string()
    };
    let mut sources = streams();
    assert!(refused(None, Acting::Greatest).contains("come from a network"));
    assert!(
        refused(Some(&network), Acting::Uniform { count: 2, sources: &mut sources }).contains("come from a network")
    );
    let shared = Acting::Shared { count: 2, source: Source64(Stream::new(1)) };
    assert!(refused(Some(&network), shared).contains("come from a network"));
    let few = Acting::Uniform { count: 2, sources: &mut sources[1..] };
    assert!(refused(None, few).contains("5 environments need as many random streams, got 4"));
}

#[test]
fn what_it_does_not_take_is_refused_before_anything_changes() {
    let (network, _kept) = network();
    let refused = |replay: &mut Replay, ready: Vec<usize>, limit: Limit, clocks: &[f32]| {
        let mut obs = vec![0.0; 4 * ENVS];
        let mut envs = envs(&mut obs);
        let mut running = CollectState { obs: &mut obs, ready, limit };
        let noise: Acting<'_, Source64> = Acting::Clocks(clocks);
        let error = collect(&mut *envs, replay, Some(&network), &mut running, noise).unwrap_err().to_string();
        assert_eq!(replay.rings().live(), 0);
        error
    };
    let all: Vec<usize> = (0..ENVS).collect();
    let mut plain = replay();
    assert!(refused(&mut plain, vec![0, 9], Limit::Steps(1), &[]).contains("ready ones among them"));
    assert!(refused(&mut plain, vec![1, 0], Limit::Steps(1), &[]).contains("ready ones among them"));
    assert!(refused(&mut plain, vec![], Limit::Steps(1), &[]).contains("no environment is ready"));
    assert!(refused(&mut plain, all.clone(), Limit::Quotas(vec![1]), &[]).contains("as many quotas"));
    assert!(refused(&mut plain, all.clone(), Limit::Steps(1), &[1.0; 9]).contains("there are 9 numbers for step 0"));
    let mut two = vec![0.0; 4 * ENVS];
    let mut vector = envs(&mut two);
    let narrow = Network::new(2, vec![Node::Softmax { input: 0, size: 2 }]).unwrap();
    let mut running = CollectState { obs: &mut two, ready: all.clone(), limit: Limit::Steps(1) };
    let noise: Acting<'_, Source64> = Acting::Greatest;
    let error = collect(&mut *vector, &mut plain, Some(&narrow), &mut running, noise).unwrap_err();
    assert!(matches!(error, Error::Mismatch(_)), "{error}");
    let mut other = replay();
    other.define(vec![leaf(&["info", "prob"], "<f8", 8, &[])]).unwrap();
    assert!(refused(&mut other, all, Limit::Steps(1), &[1.0; 10]).contains("the columns are not those"));
}

/// What a collection from environments with `autoreset` leaves behind.
fn left_by(autoreset: &str, limit: Limit) -> Left {
    let mut obs = vec![0.0; 4 * ENVS];
    let (mut envs, mut replay) = (envs_with(autoreset, &mut obs), replay());
    let (network, _kept) = network();
    let mut running = CollectState { obs: &mut obs, ready: (0..ENVS).collect(), limit };
    let noise = Acting::Epsilon { epsilon: 0.8, count: 2, source: Source64(Stream::new(7)) };
    let done = collect(&mut *envs, &mut replay, Some(&network), &mut running, noise).unwrap();
    let states = (0..ENVS).map(|id| envs.save(id).unwrap()).collect();
    let sizes = replay.rings().iter().map(|ring| ring.live()).collect();
    let (ready, limit) = (running.ready, running.limit);
    (done, obs, ready, limit, states, sizes)
}

#[test]
fn steps_that_only_reset_an_environment_are_no_transitions() {
    let (done, obs, ready, limit, states, sizes) = left_by("NextStep", Limit::Steps(60));
    let mut now = vec![0.0; 4 * ENVS];
    let mut vector = envs_with("NextStep", &mut now);
    let mut source = Source64(Stream::new(7));
    let (mut rows, mut lengths, mut over) = (vec![0_i64; ENVS], Vec::new(), [false; ENVS]);
    let mut running = [0; ENVS];
    for _ in 0..60 {
        let mut actions: Vec<i64> =
            now.chunks(4).map(|o| i64::from(0.2 * -o[1] + 2.0 * o[2] + 2.0 * o[3] > 0.0)).collect();
        epsilon_greedy(&mut source, 0.8, 2, &mut actions, &mut [false; ENVS]);
        let (mut rew, mut ends, mut cuts) = ([0.0; ENVS], [0; ENVS], [0; ENVS]);
        let obs = ValuesMut::Float32(&mut now);
        let output = Output { obs, rew: &mut rew, terminated: &mut ends, truncated: &mut cuts };
        vector.step(None, Values::Int64(&actions), output).unwrap();
        for id in 0..ENVS {
            let first = std::mem::replace(&mut over[id], ends[id] + cuts[id] > 0);
            rows[id] += i64::from(!first);
            running[id] += i64::from(!first);
            if over[id] {
                lengths.push(std::mem::take(&mut running[id]));
            }
        }
    }
    assert!(lengths.len() > ENVS, "episodes ended");
    assert_eq!((done.lengths, &done.rows, done.steps as i64), (lengths, &rows, rows.iter().sum::<i64>()));
    assert_eq!((done.vector_steps, done.stale.len(), ready.len(), limit), (60, 0, ENVS, Limit::Steps(0)));
    assert_eq!(obs, now);
    assert_eq!(states, (0..ENVS).map(|id| vector.save(id).unwrap()).collect::<Vec<_>>());
    assert_eq!(sizes, rows.iter().map(|&rows| rows.min(40) as usize).collect::<Vec<_>>());
}

#[test]
fn environments_that_reset_themselves_are_not_left_stale() {
    let (done, _, ready, ..) = left_by("NextStep", Limit::Episodes(12));
    assert_eq!((done.returns.len(), done.stale.len(), ready.len()), (12, 0, 0));
}

#[test]
fn resets_within_a_step_are_those_after_it() {
    let (within, after) = (left_by("SameStep", Limit::Steps(60)), left_by("Disabled", Limit::Steps(60)));
    assert!(after.0.returns.len() > ENVS, "episodes ended");
    assert_eq!(within, after);
}

#[test]
fn limits_have_names() {
    assert_eq!(Limit::named("steps", vec![3]).unwrap(), Limit::Steps(3));
    assert_eq!(Limit::named("episodes", vec![0]).unwrap(), Limit::Episodes(0));
    assert_eq!(Limit::named("quotas", vec![2, 0]).unwrap(), Limit::Quotas(vec![2, 0]));
    for (name, numbers) in [("steps", vec![]), ("steps", vec![-1]), ("episodes", vec![1, 2]), ("rows", vec![1])] {
        let error = Limit::named(name, numbers).unwrap_err().to_string();
        assert!(error.contains("steps, episodes or quotas"), "{error}");
    }
}

#[test]
fn real_actions_stay_within_their_bounds() {
    let mapped = |(low, high): (f32, f32), stretch: bool, actions: &[f32]| {
        let (low, high) = (vec![low; 1], vec![high; 1]);
        let drawing = Drawing { mean: 0, deviation: None, squash: false };
        let real = RealActions { drawing, normals: &[], clip: true, stretch, bounds: Some((&low, &high)) };
        let mut mapped = vec![0.0; actions.len()];
        (real.map(actions, &mut mapped), mapped)
    };
    assert_eq!(mapped((-1.381_279_7, 0.821_770_13), true, &[1.0, -9.0]), (true, vec![0.821_770_13, -1.381_279_7]));
    assert_eq!(mapped((-1.5e38, 1.5e38), true, &[1.0, 0.0, -1.0]), (true, vec![1.5e38, 0.0, -1.5e38]));
    assert_eq!(mapped((-0.5, 0.25), false, &[1.0, -0.25, -1.0]), (true, vec![0.25, -0.25, -0.5]));
    assert_eq!(mapped((2.0, 2.0), true, &[0.3]), (true, vec![2.0]));
    assert!(!mapped((-1.0, 1.0), true, &[f32::NAN]).0);
    assert!(mapped((-1.0, 1.0), false, &[f32::NAN]).1[0].is_nan());
}
