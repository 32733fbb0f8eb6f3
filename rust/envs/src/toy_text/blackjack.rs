//! Blackjack: getting closer to 21 than the dealer, and not above.

use rlfast_core::rng::numpy::Generator;

use crate::{Env, Episode, LoadError, OptionsError, Outcome, Space, State, StepError};

/// Values of the cards of one suit. Cards are drawn with replacement.
const SUIT: [u8; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10];
/// The sum at which the dealer stops.
const DEALER_STOPS: u8 = 17;

/// The reward of a natural: an ace and a ten as the first two cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// A natural counts as any other 21: Gymnasium's `sab=False, natural=False`, the default of its class.
    #[default]
    Plain,
    /// A natural that wins has reward 1.5: `natural=True`.
    Natural,
    /// A natural wins unless the dealer has one, too, as in Sutton and Barto's book: `sab=True`, with which
    /// `Blackjack-v1` is registered.
    SuttonBarto,
}

/// The blackjack of example 5.1 in Sutton and Barto's book: Gymnasium's `Blackjack-v1`.
///
/// Observations are the player's sum, the dealer's open card (1 for an ace), and whether the player has an ace that
/// counts 11. Action 0 sticks, 1 draws a card. The reward is 1 for a win and -1 for a loss.
#[derive(Clone, Debug)]
pub struct Blackjack {
    rules: Rules,
    player: Hand,
    dealer: Hand,
    open: u8,
    episode: Episode,
}

/// The cards of one player, summarised.
#[derive(Clone, Copy, Debug, Default)]
struct Hand {
    cards: u8,
    /// The sum of the values, with each ace as 1.
    sum: u8,
    ace: bool,
}

impl Hand {
    /// Draws a card, and returns its value.
    fn draw(&mut self, generator: &mut Generator) -> u8 {
        let value = SUIT[generator.below(SUIT.len() as u64) as usize];
        *self = Self { cards: self.cards + 1, sum: self.sum + value, ace: self.ace || value == 1 };
        value
    }

    fn has_usable_ace(self) -> bool {
        self.ace && self.sum + 10 <= 21
    }

    fn total(self) -> u8 {
        if self.has_usable_ace() { self.sum + 10 } else { self.sum }
    }

    fn score(self) -> u8 {
        if self.total() > 21 { 0 } else { self.total() }
    }

    fn is_natural(self) -> bool {
        self.cards == 2 && self.total() == 21
    }
}

impl State for Hand {
    fn save(&self, to: &mut Vec<u8>) {
        (self.cards, self.sum, self.ace).save(to);
    }

    fn load(from: &mut &[u8]) -> Result<Self, LoadError> {
        let (cards, sum, ace) = State::load(from)?;
        // A bust hand had at most 21 before its last card, which adds at most 10.
        if sum > 31 || cards > sum {
            return Err(LoadError::Invalid("there is no such hand of cards"));
        }
        Ok(Self { cards, sum, ace })
    }
}

impl Blackjack {
    /// Returns an environment that must be reset first.
    pub fn new(rules: Rules) -> Self {
        Self { rules, player: Hand::default(), dealer: Hand::default(), open: 0, episode: Episode::new() }
    }

    /// Plays the dealer's hand, and returns the reward of the player.
    fn settle(&mut self) -> f64 {
        while self.dealer.total() < DEALER_STOPS {
            self.dealer.draw(&mut self.episode.generator);
        }
        let reward = f64::from(self.player.score().cmp(&self.dealer.score()) as i8);
        match self.rules {
            Rules::SuttonBarto if self.player.is_natural() && !self.dealer.is_natural() => 1.0,
            Rules::Natural if self.player.is_natural() && reward == 1.0 => 1.5,
            _ => reward,
        }
    }

    fn write(&self, observation: &mut [i64]) {
        let ace = i64::from(self.player.has_usable_ace());
        observation.copy_from_slice(&[i64::from(self.player.total()), i64::from(self.open), ace]);
    }
}

impl Env for Blackjack {
    type Observation = i64;
    type Action = i64;

    fn observation_space(&self) -> Space {
        Space::Tuple([32, 11, 2].map(Space::discrete).into())
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset_with(&mut self, seed: Option<u64>, _options: &[f64], observation: &mut [i64]) -> Result<(), OptionsError> {
        let generator = self.episode.begin(seed);
        [self.player, self.dealer] = [Hand::default(); 2];
        self.open = self.dealer.draw(generator);
        self.dealer.draw(generator);
        self.player.draw(generator);
        self.player.draw(generator);
        // Gymnasium draws these to render the open card: its suit, and which card with value 10 it is.
        generator.below(4);
        if self.open == 10 {
            generator.below(3);
        }
        self.write(observation);
        Ok(())
    }

    fn check(&self, action: &[i64]) -> Result<(), StepError> {
        self.episode.check(action, matches!(action, [0 | 1]), || self.action_space())
    }

    fn step(&mut self, action: &[i64], observation: &mut [i64]) -> Outcome {
        let (reward, terminated) = if action[0] == 0 {
            (self.settle(), true)
        } else {
            self.player.draw(&mut self.episode.generator);
            let bust = self.player.score() == 0;
            (if bust { -1.0 } else { 0.0 }, bust)
        };
        self.episode.running = !terminated;
        self.write(observation);
        Outcome { reward, terminated, truncated: false }
    }

    fn save(&self, to: &mut Vec<u8>) {
        (self.player, self.dealer, self.open).save(to);
        self.episode.save(to);
    }

    fn load(&mut self, from: &mut &[u8]) -> Result<(), LoadError> {
        let ((player, dealer, open), episode) = State::load(from)?;
        if open > 10 {
            return Err(LoadError::Invalid("there is no such card"));
        }
        *self = Self { rules: self.rules, player, dealer, open, episode };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
