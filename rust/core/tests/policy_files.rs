//! Policies from files: what they compute, and files that are none.

use std::collections::HashMap;

use rlfast_core::nn::{Observations, Policy};
use rlfast_core::rng::Stream;
use rlfast_core::rng::torch::Generator;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};

/// Weights of 2 outputs for 3 inputs: sums of the first two and of the last two.
const WEIGHT: [f32; 6] = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0];

fn file(description: &str) -> Vec<u8> {
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let doubles = |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let places = [2_i64, 0, 1].iter().flat_map(|place| place.to_le_bytes()).collect::<Vec<_>>();
    let tensors = [
        ("w", Dtype::F32, vec![2, 3], bytes(&WEIGHT)),
        ("b", Dtype::F32, vec![2], bytes(&[0.5, -0.5])),
        ("mean", Dtype::F64, vec![3], doubles(&[1.0, 2.0, 3.0])),
        ("deviation", Dtype::F64, vec![3], doubles(&[2.0, 4.0, 0.5])),
        ("low", Dtype::F64, vec![2], doubles(&[-1.0, 0.0])),
        ("high", Dtype::F64, vec![2], doubles(&[3.0, 10.0])),
        ("p", Dtype::I64, vec![3], places),
    ];
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        (*name, TensorView::new(*dtype, shape.clone(), data).expect("a tensor of this size"))
    });
    let header = [("version", "1"), ("policy", description)];
    let header: HashMap<_, _> = header.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    serialize(views, Some(header)).expect("a file")
}

fn discrete(places: &str, scales: &str) -> Vec<u8> {
    file(&format!(
        r#"{{"observation":{{"arrays":[{{"keys":[],"shape":[3]}}],"places":{places},"scales":{scales}}},
        "nodes":[["linear",0,"w","b",false]],"random":true,"state":null,
        "action":{{"type":"discrete","slot":1,"sizes":[2],"starts":[5],"logits":true,"shape":[]}}}}"#
    ))
}

fn continuous(bound: &str, stretched: bool) -> Vec<u8> {
    file(&format!(
        r#"{{"observation":{{"arrays":[{{"keys":[],"shape":[3]}}],"places":null,"scales":[]}},
        "nodes":[["linear",0,"w","b",false],["constant","b"]],"random":false,"state":null,
        "action":{{"type":"continuous","mean":1,"deviation":2,"squashed":false,"bound":{bound},"stretched":{stretched},
        "low":"low","high":"high","shape":[2],"dtype":"float64"}}}}"#
    ))
}

/// An observation is a number below 3, in one dictionary, and a vector.
fn named() -> Vec<u8> {
    file(
        r#"{"observation":{"arrays":[{"keys":["a","place"],"shape":[]},{"keys":["b"],"shape":[2]}],"places":null,
        "scales":[]},"state":null,"random":false,
        "nodes":[["pick",0,"p"],["one_hot",0,3],["linear",1,"w","b",false]],
        "action":{"type":"discrete","slot":3,"sizes":[2],"starts":[0],"logits":false,"shape":[]}}"#,
    )
}

/// The observations are summed up in the state, and the action is twice the sum that was before.
fn recurrent() -> Vec<u8> {
    file(
        r#"{"observation":{"arrays":[{"keys":[],"shape":[1]}],"places":null,"scales":[]},
        "nodes":[["pick",0,"p"],["linear",1,"w","b",false],["scale",2,2.0]],"random":false,
        "state":{"slot":2,"size":2},
        "action":{"type":"continuous","mean":3,"deviation":null,"squashed":false,"bound":null,"stretched":false,
        "low":null,"high":null,"shape":[2],"dtype":"float32"}}"#,
    )
}

fn controlled(file: &[u8], obs: &[f32], draws: Option<&[f32]>) -> [f64; 2] {
    let mut action = [0.0; 2];
    Policy::from_bytes(file).unwrap().control(Observations::Singles(obs), &mut [], draws, &mut action).unwrap();
    action
}

#[test]
fn the_greatest_number_is_chosen() {
    let policy = Policy::from_bytes(&discrete("null", "[]")).unwrap();
    let mut actions = [0; 2];
    policy.choose(Observations::Singles(&[1.0, 0.0, 0.0, 0.0, 0.0, 2.0]), &mut [], None, &mut actions).unwrap();
    assert_eq!(actions, [5, 6]);
    assert!(policy.is_random() && policy.is_discrete());
}

#[test]
fn draws_follow_the_softmax() {
    let policy = Policy::from_bytes(&discrete("null", "[]")).unwrap();
    let (rows, mut generator) = (20_000, Generator::of_policy(3));
    let (obs, mut actions) = (vec![0.0; 3 * rows], vec![0; rows]);
    let draws = policy.draws(rows, &mut generator).unwrap();
    policy.choose(Observations::Singles(&obs), &mut [], Some(&draws), &mut actions).unwrap();
    let share = actions.iter().filter(|&&action| action == 6).count() as f64 / rows as f64;
    assert!((share - 1.0 / (1.0 + 1_f64.exp())).abs() < 0.01);
}

#[test]
fn observations_are_picked_and_normalized() {
    let scales = r#"[{"mean":"mean","deviation":"deviation","limit":1.5}]"#;
    let policy = Policy::from_bytes(&discrete(r#""p""#, scales)).unwrap();
    // seen as (0, 6, 3.5) and scaled to (-0.5, 1, 1): the sums are 0.5 + 0.5 and 2 - 0.5
    let (mut actions, obs) = ([0], [6.0, 3.5, 0.0]);
    policy.choose(Observations::Doubles(&obs), &mut [], None, &mut actions).unwrap();
    assert_eq!(actions, [6]);
    // (0, 6, 99) is bounded to (-0.5, 1, 1.5), and (30, 30, -99) to (1.5, 1.5, -1.5)
    policy.choose(Observations::Doubles(&[30.0, -99.0, 30.0]), &mut [], None, &mut actions).unwrap();
    assert_eq!(actions, [5]);
}

#[test]
fn actions_are_bounded_and_stretched() {
    let obs = [0.25, 0.25, 0.25]; // means 1 and 0
    assert_eq!(controlled(&continuous("null", true), &obs, None), [3.0, 5.0]);
    assert_eq!(controlled(&continuous(r#""clip""#, true), &[9.0; 3], None), [3.0, 10.0]);
    assert_eq!(controlled(&continuous(r#""clip""#, false), &[9.0; 3], None), [1.0, 1.0]);
    assert_eq!(controlled(&continuous("null", false), &[9.0; 3], None), [3.0, 10.0]);
    assert_eq!(controlled(&continuous("null", true), &obs, Some(&[-1.0, 1.0])), [2.0, 2.5]);
    let squashed = controlled(&continuous(r#""tanh""#, true), &obs, None);
    assert!((squashed[0] - (1.0 + 2.0 * 1_f64.tanh())).abs() < 1e-6);
}

#[test]
fn hidden_states_are_the_callers() {
    let policy = Policy::from_bytes(&recurrent()).unwrap();
    assert_eq!(policy.hidden(), 2);
    let (mut hidden, mut actions) = ([0.0; 4], [0.0; 4]);
    // seen as (state 1, obs, state 0): the state becomes (state 1 + obs + 0.5, obs + state 0 - 0.5)
    policy.control(Observations::Singles(&[1.0, 5.0]), &mut hidden, None, &mut actions).unwrap();
    assert_eq!((hidden, actions), ([1.5, 0.5, 5.5, 4.5], [3.0, 1.0, 11.0, 9.0]));
    hidden[2..].fill(0.0);
    policy.control(Observations::Doubles(&[2.0, 5.0]), &mut hidden, None, &mut actions).unwrap();
    assert_eq!(hidden, [3.0, 3.0, 5.5, 4.5]);
    for wrong in [0, 2, 5] {
        let mut hidden = vec![0.0; wrong];
        let error = policy.control(Observations::Singles(&[1.0, 5.0]), &mut hidden, None, &mut actions).unwrap_err();
        assert!(error.to_string().contains("2 observations need 4 numbers of hidden states"), "{error}");
    }
    assert!(policy.control(Observations::Singles(&[f32::NAN, 5.0]), &mut hidden, None, &mut actions).is_err());
    assert_eq!(hidden, [3.0, 3.0, 5.5, 4.5]);
}

#[test]
fn arrays_have_keys() {
    let policy = Policy::from_bytes(&named()).unwrap();
    let arrays: Vec<_> = policy.observation().iter().map(|array| (array.keys.join("."), array.shape.len())).collect();
    assert_eq!((arrays, policy.numbers()), (vec![("a.place".to_owned(), 0), ("b".to_owned(), 1)], 3));
}

#[test]
fn numbers_outside_of_their_space_are_errors() {
    let nodes = r#""nodes":[["one_hot",0,1],["linear",1,"w","b",false]]"#;
    let policy = Policy::from_bytes(&file(&format!(
        r#"{{"observation":{{"arrays":[{{"keys":[],"shape":[3]}}],"places":null,"scales":[]}},{nodes},"random":false,
        "state":null,"action":{{"type":"discrete","slot":2,"sizes":[2],"starts":[0],"logits":false,"shape":[]}}}}"#
    )))
    .unwrap();
    let mut action = [0];
    policy.choose(Observations::Singles(&[0.0; 3]), &mut [], None, &mut action).unwrap();
    assert_eq!(action, [0]);
    let error = policy.choose(Observations::Singles(&[0.0, 1.0, 0.0]), &mut [], None, &mut action).unwrap_err();
    assert!(error.to_string().contains("not in its space"), "{error}");
}

#[test]
fn wrong_calls_are_errors() {
    let policy = Policy::from_bytes(&discrete("null", "[]")).unwrap();
    let mut action = [0];
    for (obs, draws, room) in [(2, None, 1), (3, None, 2), (3, Some(1), 1), (6, None, 1)] {
        let (obs, draws) = (vec![0.0; obs], draws.map(|count| vec![1.0; count]));
        let mut actions = vec![0; room];
        assert!(policy.choose(Observations::Singles(&obs), &mut [], draws.as_deref(), &mut actions).is_err());
    }
    assert!(policy.control(Observations::Singles(&[0.0; 3]), &mut [], None, &mut [0.0]).is_err());
    let policy = Policy::from_bytes(&continuous("null", true)).unwrap();
    assert!(policy.choose(Observations::Singles(&[0.0; 3]), &mut [], None, &mut action).is_err());
    let mut actions = [0.0; 2];
    assert!(policy.control(Observations::Singles(&[9.0; 3]), &mut [], None, &mut actions).is_err(), "outside [-1, 1]");
    assert!(policy.control(Observations::Singles(&[f32::NAN; 3]), &mut [], None, &mut actions).is_err());
}

#[test]
fn places_of_many_nodes_are_few() {
    let nodes = vec![r#"["pick",0,"p"]"#; 1_500_000].join(",");
    let description = format!(
        r#"{{"observation":{{"arrays":[{{"keys":[],"shape":[3]}}],"places":null,"scales":[]}},"nodes":[{nodes}],"random":false,"state":null,
        "action":{{"type":"discrete","slot":1,"sizes":[3],"starts":[0],"logits":false,"shape":[]}}}}"#
    );
    let error = Policy::from_bytes(&file(&description)).unwrap_err().to_string();
    assert!(error.contains("more than 4194304 places"), "{error}");
}

/// Changes some bytes of files, most of them in the header, and lets those act that can be opened.
fn mutate(count: usize, seed: u64) -> usize {
    let (mut stream, mut opened) = (Stream::new(seed), 0);
    let files = [discrete("null", "[]"), discrete(r#""p""#, "[]"), continuous(r#""clip""#, true), recurrent(), named()];
    for k in 0..count {
        let mut file = files[k % files.len()].clone();
        let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        for _ in 0..1 + stream.below(3) {
            let limit = if stream.below(8) > 0 { header } else { file.len() };
            let at = stream.below(limit as u64) as usize;
            file[at] = if stream.below(2) == 0 { stream.below(256) as u8 } else { file[at] ^ (1 << stream.below(8)) };
        }
        if stream.below(20) == 0 {
            file.truncate(stream.below(file.len() as u64) as usize);
        }
        let Ok(policy) = Policy::from_bytes(&file) else { continue };
        opened += 1;
        let obs = vec![0.5; policy.numbers()];
        let (actions, mut hidden) = (policy.action_shape().iter().product(), vec![0.0; policy.hidden()]);
        if policy.is_discrete() {
            let _ = policy.choose(Observations::Doubles(&obs), &mut hidden, None, &mut vec![0; actions]);
        } else {
            let _ = policy.control(Observations::Doubles(&obs), &mut hidden, None, &mut vec![0.0; actions]);
        }
    }
    opened
}

#[test]
fn damaged_files_are_errors() {
    let opened = mutate(5_000, 1);
    assert!(0 < opened && opened < 5_000);
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_damaged_files_are_errors() {
    for seed in 0..10 {
        mutate(1_000_000, seed);
    }
}
