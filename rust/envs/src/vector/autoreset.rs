//! What follows an episode.

/// Who resets an environment whose episode ended, as `gymnasium.vector.AutoresetMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// The caller; stepping it before is an error.
    Disabled,
    /// The next step: it ignores the action, earns 0 and gives the first observation.
    NextStep,
    /// The step that ended it: it gives the next episode's first observation; the final one is among the [`Events`].
    ///
    /// [`Events`]: super::Events
    SameStep,
}
