use super::*;
use crate::testing::{assert_refuses, assert_resumes};

const LENGTH: usize = FRAMES * SIZE * SIZE;

/// The row and column of the field of a picture's only ball or paddle; None if the other covers it.
fn field_of(picture: &[u8], value: u8) -> Option<[usize; 2]> {
    let found = picture.iter().position(|&pixel| pixel == value)?;
    assert_eq!(picture.iter().filter(|&&pixel| pixel == value).count(), PIXELS * PIXELS, "one whole field");
    Some([found / SIZE / PIXELS, found % SIZE / PIXELS])
}

/// Returns an environment in a running episode, and its observation.
fn begun(ball: i64, drift: i64) -> (Catch, Vec<u8>) {
    let (mut env, mut observation) = (Catch::new(), vec![0; LENGTH]);
    env.reset(Some(0), &mut observation);
    (env.fields, env.drift) = ([[0, ball, FIELDS / 2]; FRAMES], drift);
    (env, observation)
}

#[test]
fn the_ball_falls_and_comes_back_from_the_walls() {
    for (ball, drift, columns) in [(4, 0, [4, 4, 4, 4]), (4, 1, [5, 6, 5, 4]), (1, -1, [0, 1, 2, 3])] {
        let (mut env, mut observation) = begun(ball, drift);
        for (row, column) in columns.into_iter().enumerate() {
            env.step(&[1], &mut observation);
            assert_eq!(field_of(&observation[LENGTH - SIZE * SIZE..], BALL), Some([row + 1, column]));
        }
    }
}

#[test]
fn actions_move_the_paddle_as_far_as_the_walls() {
    for (action, columns) in [(0, [2, 1, 0, 0, 0]), (1, [3; 5]), (2, [4, 5, 6, 6, 6])] {
        let (mut env, mut observation) = begun(0, 0);
        for column in columns {
            env.step(&[action], &mut observation);
            assert_eq!(field_of(&observation[LENGTH - SIZE * SIZE..], PADDLE), Some([6, column]));
        }
    }
}

#[test]
fn the_last_reward_tells_whether_the_ball_was_caught() {
    for (ball, reward) in [(3, 1.0), (4, -1.0)] {
        let (mut env, mut observation) = begun(ball, 0);
        for _ in 0..5 {
            let outcome = env.step(&[1], &mut observation);
            assert_eq!(outcome, Outcome { reward: 0.0, terminated: false, truncated: false });
        }
        let outcome = env.step(&[1], &mut observation);
        assert_eq!(outcome, Outcome { reward, terminated: true, truncated: false });
        assert!(env.check(&[1]).is_err(), "the episode has ended");
    }
}

#[test]
fn a_player_who_follows_the_ball_always_catches_it() {
    let (mut env, mut observation) = (Catch::new(), vec![0; LENGTH]);
    let mut starts = [0; FIELDS as usize];
    for seed in 0..200 {
        env.reset(Some(seed), &mut observation);
        starts[env.fields[0][1] as usize] += 1;
        loop {
            let [_, ball, paddle] = env.fields[FRAMES - 1];
            let next = if (0..FIELDS).contains(&(ball + env.drift)) { ball + env.drift } else { ball - env.drift };
            let outcome = env.step(&[(next - paddle).signum() + 1], &mut observation);
            if outcome.terminated {
                assert_eq!(outcome.reward, 1.0, "seed {seed}");
                break;
            }
        }
    }
    assert!(starts.iter().all(|&count| count > 0), "{starts:?}");
}

#[test]
fn pictures_are_stacked_with_the_oldest_first() {
    let (mut env, mut observation) = (Catch::new(), vec![0; LENGTH]);
    env.reset(Some(1), &mut observation);
    let rows = |observation: &[u8]| {
        let pictures = observation.chunks_exact(SIZE * SIZE);
        pictures.map(|picture| field_of(picture, BALL).expect("the ball is on top")[0]).collect::<Vec<_>>()
    };
    assert_eq!(rows(&observation), [0; FRAMES]);
    for wanted in [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4]] {
        env.step(&[1], &mut observation);
        assert_eq!(rows(&observation), wanted);
    }
}

#[test]
fn steps_need_an_episode_and_a_legal_action() {
    assert_refuses(Catch::new(), 1, &[&[3], &[-1], &[], &[0, 1]], "integers from 0 to 2");
}

#[test]
fn a_loaded_episode_goes_on() {
    assert_resumes(Catch::new(), Catch::new(), |t| (t * t / 3 % 3) as i64);
}
