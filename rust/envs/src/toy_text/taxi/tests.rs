//! Compares Taxi with episodes recorded from Gymnasium 1.4.0's `gymnasium.make("Taxi-v4")`.

use super::*;
use crate::testing::{Step, assert_episode, assert_refuses, assert_resumes};
use crate::wrapper::TimeLimit;

const EPISODE: [Step<i64, i64, 1>; 10] = [
    (0, [486], -1.0, false),
    (4, [486], -10.0, false),
    (1, [386], -1.0, false),
    (1, [286], -1.0, false),
    (3, [266], -1.0, false),
    (4, [266], -10.0, false),
    (5, [266], -10.0, false),
    (2, [286], -1.0, false),
    (2, [286], -1.0, false),
    (0, [386], -1.0, false),
];

fn dry() -> Taxi {
    Taxi::new(None, None).expect("no probability is asked for")
}

/// Returns `env` in a running episode with this state.
fn driving(mut env: Taxi, taxi: [usize; 2], passenger: usize, destination: usize) -> Taxi {
    env.reset(Some(0), &mut [0]);
    Taxi { at: Scene { taxi, passenger, destination }.encoded(), ..env }
}

/// Returns the reward and `terminated` of an action, and the state after it.
fn stepped(env: &mut Taxi, action: i64) -> (f64, bool, Scene) {
    let mut observation = [0];
    let outcome = env.step(&[action], &mut observation);
    (outcome.reward, outcome.terminated, Scene::decoded(observation[0] as usize))
}

fn mask(env: &Taxi) -> [f64; 6] {
    let mut info = [0.0; 7];
    env.info(&mut info);
    std::array::from_fn(|action| info[action + 1])
}

#[test]
fn episodes_are_gymnasiums() {
    let mut env = dry();
    assert_episode(&mut env, 42, [386], &EPISODE);
    assert_eq!(mask(&env), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_passenger_is_fetched_and_delivered() {
    let mut env = driving(dry(), [0, 1], 0, 1);
    assert_eq!(mask(&env), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    let (reward, _, scene) = stepped(&mut env, 3);
    assert_eq!((reward, scene.taxi), (-1.0, [0, 0]));
    assert_eq!(mask(&env), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let (reward, _, scene) = stepped(&mut env, 4);
    assert_eq!((reward, scene.passenger), (-1.0, ABOARD));
    assert_eq!(mask(&env), [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    // Drives down to the row without walls, across, and up again.
    for action in [0, 0, 2, 2, 2, 2, 1, 1] {
        assert_eq!(stepped(&mut env, action).0, -1.0);
    }
    let (reward, terminated, scene) = stepped(&mut env, 5);
    assert_eq!((reward, terminated, scene.taxi, scene.passenger), (20.0, true, [0, 4], 1));
    assert_eq!(env.check(&[0]), Err(StepError::NeedsReset));
}

#[test]
fn a_passenger_may_get_out_at_another_place_but_not_in_the_street() {
    let (reward, terminated, scene) = stepped(&mut driving(dry(), [4, 0], ABOARD, 1), 5);
    assert_eq!((reward, terminated, scene.passenger), (-1.0, false, 2));
    for (action, taxi, passenger) in [(5, [2, 2], ABOARD), (5, [0, 4], 0), (4, [2, 2], 0), (4, [0, 0], ABOARD)] {
        let (reward, terminated, scene) = stepped(&mut driving(dry(), taxi, passenger, 1), action);
        assert_eq!((reward, terminated, scene.taxi, scene.passenger), (-10.0, false, taxi, passenger));
    }
}

#[test]
fn rain_drives_the_taxi_aside_but_not_where_the_way_is_blocked() {
    let rainy = Taxi::new(Some(0.5), None).expect("0.5 is a probability");
    let reached = |taxi, action| {
        let scene = Scene { taxi, passenger: 0, destination: 1 };
        scene.moved(action, Some(0.5)).into_iter().map(|branch| (branch.probability, Scene::decoded(branch.state).taxi))
    };
    let aside: Vec<_> = reached([2, 2], 0).collect();
    assert_eq!(aside, [(0.5, [3, 2]), (0.25, [2, 3]), (0.25, [2, 1])]);
    let walled: Vec<_> = reached([0, 1], 0).collect();
    assert_eq!(walled, [(0.5, [1, 1]), (0.25, [0, 1]), (0.25, [0, 0])]);
    let blocked: Vec<_> = reached([0, 1], 2).collect();
    assert_eq!(blocked, [(0.5, [0, 1]), (0.25, [0, 1]), (0.25, [0, 1])]);
    let mut env = driving(rainy, [2, 2], 0, 1);
    env.step(&[0], &mut [0]);
    let mut info = [0.0; 7];
    env.info(&mut info);
    assert!(info[0] == 0.5 || info[0] == 0.25);
}

#[test]
fn a_fickle_passenger_changes_their_mind_once_after_a_move() {
    let mut env = driving(Taxi::new(None, Some(1.0)).expect("1 is a probability"), [2, 2], ABOARD, 1);
    assert!(env.wavering);
    // Actions that leave the taxi in place, a wrong drop and a blocked move, do not count as moves.
    assert_eq!(stepped(&mut env, 5).2.destination, 1);
    let destination = stepped(&mut env, 0).2.destination;
    assert_ne!(destination, 1);
    for action in [1, 0, 1, 0] {
        assert_eq!(stepped(&mut env, action).2.destination, destination);
    }
    assert!(!driving(Taxi::new(None, Some(0.0)).expect("0 is a probability"), [2, 2], ABOARD, 1).wavering);
}

#[test]
fn bad_probabilities_are_refused() {
    let error = Taxi::new(Some(1.5), None).expect_err("no probability");
    assert_eq!(error, "rainy_probability is a probability, from 0 to 1; got 1.5");
    let error = Taxi::new(None, Some(f64::NAN)).expect_err("no probability");
    assert_eq!(error, "fickle_probability is a probability, from 0 to 1; got NaN");
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(dry(), 5, &[&[6], &[-1], &[], &[0, 1]], "integers from 0 to 5");
}

#[test]
fn a_loaded_ride_goes_on() {
    let env = || TimeLimit::new(Taxi::new(Some(0.8), Some(0.5)).expect("these are probabilities"), 40);
    assert_resumes(env(), env(), |t| (t * 5 % 7 % 6) as i64);
    let mut bytes = Vec::new();
    Taxi { at: STATES, ..dry() }.save(&mut bytes);
    assert!(matches!(dry().load(&mut bytes.as_slice()), Err(LoadError::Invalid(_))));
}
