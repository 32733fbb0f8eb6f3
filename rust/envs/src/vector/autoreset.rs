//! Resets after the end of an episode.

/// When an environment is reset after the end of an episode: `gymnasium.vector.AutoresetMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// The caller resets it; a step before the reset is an error.
    Disabled,
    /// The next step resets it: this step ignores its action, has reward 0 and returns the first observation.
    NextStep,
    /// The step that ended the episode resets it and returns the first observation of the next episode; the final observation
    /// is in the [`Events`].
    ///
    /// [`Events`]: super::Events
    SameStep,
}
