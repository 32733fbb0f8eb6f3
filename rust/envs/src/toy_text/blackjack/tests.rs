//! Compares Blackjack with games recorded from Gymnasium 1.4.0's `gymnasium.make("Blackjack-v1")`.

use super::*;
use crate::testing::{assert_episode, assert_refuses, assert_resumes};

fn hand(cards: &[u8]) -> Hand {
    Hand { cards: cards.len() as u8, sum: cards.iter().sum(), ace: cards.contains(&1) }
}

/// Returns the reward of sticking with these cards against a dealer who draws no more.
fn reward_of_sticking(rules: Rules, player: &[u8], dealer: &[u8]) -> f64 {
    let mut env = Blackjack::new(rules);
    env.reset(Some(0), &mut [0; 3]);
    let mut env = Blackjack { player: hand(player), dealer: hand(dealer), ..env };
    let outcome = env.step(&[0], &mut [0; 3]);
    assert!(outcome.terminated && !outcome.truncated && !env.episode.running);
    assert_eq!(env.dealer.cards as usize, dealer.len());
    outcome.reward
}

#[test]
fn games_are_gymnasiums() {
    let mut env = Blackjack::new(Rules::SuttonBarto);
    assert_episode(&mut env, 0, [11, 10, 0], &[(0, [11, 10, 0], -1.0, true)]);
    assert_episode(&mut env, 1, [20, 7, 0], &[(1, [22, 7, 0], -1.0, true)]);
    assert_episode(&mut env, 3, [7, 10, 0], &[(1, [17, 10, 0], 0.0, false), (0, [17, 10, 0], -1.0, true)]);
    assert_episode(&mut env, 5, [21, 9, 1], &[(1, [18, 9, 0], 0.0, false), (0, [18, 9, 0], -1.0, true)]);
    assert_episode(&mut env, 7, [19, 10, 0], &[(1, [29, 10, 0], -1.0, true)]);
}

#[test]
fn an_ace_counts_11_while_it_can() {
    for (cards, total, usable, score) in [
        (&[1, 10][..], 21, true, 21),
        (&[1, 1], 12, true, 12),
        (&[1, 5, 10], 16, false, 16),
        (&[10, 9, 2], 21, false, 21),
        (&[10, 6, 10], 26, false, 0),
    ] {
        let hand = hand(cards);
        assert_eq!((hand.total(), hand.has_usable_ace(), hand.score()), (total, usable, score), "{cards:?}");
    }
}

#[test]
fn the_higher_score_wins() {
    for (player, dealer, reward) in
        [(&[10, 9][..], &[10, 8][..], 1.0), (&[9, 8], &[10, 7], 0.0), (&[4, 5], &[10, 7], -1.0)]
    {
        for rules in [Rules::Plain, Rules::Natural, Rules::SuttonBarto] {
            assert_eq!(reward_of_sticking(rules, player, dealer), reward);
        }
    }
}

#[test]
fn naturals_are_worth_what_the_rules_say() {
    let (natural, drawn) = ([1, 10], [10, 9, 2]);
    for (rules, against_20, against_21, against_natural) in
        [(Rules::Plain, 1.0, 0.0, 0.0), (Rules::Natural, 1.5, 0.0, 0.0), (Rules::SuttonBarto, 1.0, 1.0, 0.0)]
    {
        assert_eq!(reward_of_sticking(rules, &natural, &[10, 10]), against_20);
        assert_eq!(reward_of_sticking(rules, &natural, &drawn), against_21);
        assert_eq!(reward_of_sticking(rules, &natural, &natural), against_natural);
        assert_eq!(reward_of_sticking(rules, &drawn, &[10, 10]), 1.0);
        assert_eq!(reward_of_sticking(rules, &drawn, &natural), 0.0);
    }
}

#[test]
fn observations_lie_in_their_space_and_the_dealer_draws_to_17() {
    let (mut env, mut observation) = (Blackjack::new(Rules::Plain), [0; 3]);
    let space = env.observation_space();
    for game in 0..2000 {
        env.reset(None, &mut observation);
        assert!(space.contains(&observation.map(|value| value as f64)) && observation[0] >= 4);
        while env.check(&[1]).is_ok() {
            let action = i64::from(observation[0] < 12 + game % 10);
            env.step(&[action], &mut observation);
            assert!(space.contains(&observation.map(|value| value as f64)), "{observation:?}");
            assert!(action == 1 || env.dealer.total() >= DEALER_STOPS);
        }
    }
}

#[test]
fn steps_need_a_game_and_a_legal_action() {
    assert_refuses(Blackjack::new(Rules::Plain), 1, &[&[2], &[-1], &[], &[0, 1]], "integers from 0 to 1");
}

#[test]
fn a_loaded_game_goes_on() {
    let env = || Blackjack::new(Rules::Natural);
    assert_resumes(env(), env(), |t| i64::from(t % 3 > 0));
}

#[test]
fn impossible_hands_are_not_loaded() {
    let env = Blackjack::new(Rules::Plain);
    for (player, open) in
        [(Hand { cards: 2, sum: 32, ace: false }, 1), (Hand { cards: 3, sum: 2, ace: true }, 1), (hand(&[5]), 11)]
    {
        let mut bytes = Vec::new();
        Blackjack { player, open, ..env.clone() }.save(&mut bytes);
        assert!(matches!(env.clone().load(&mut bytes.as_slice()), Err(LoadError::Invalid(_))));
    }
}
