"""The columns of a run's logs, and what they mean: the one place from which ``docs/metrics.md`` is made."""

from __future__ import annotations

from fnmatch import fnmatchcase

_SUMMARY = ", their mean, standard deviation, maximum or minimum"

ROWS = {
    "scope": "What the row is about: `train`, `test`, `update`, `save` or `info`.",
    "axis": "What `step` counts: environment steps, gradient steps or epochs.",
    "step": "The position of the row on its axis.",
    "time": "Seconds since the logger was made.",
}
"""Columns that every row has."""

COLLECTS = {
    "n_collected_episodes": "Episodes that ended in the collect.",
    "n_collected_steps": "Environment steps of the collect.",
    "n_broken_episodes": "Episodes that were cut off because their environment failed and was rebuilt.",
    "collect_time": "Seconds that the collect took.",
    "collect_speed": "Environment steps per second.",
    "returns_stat/*": "Sums of rewards of the episodes that ended, unscaled and undiscounted" + _SUMMARY + ".",
    "lens_stat/*": "Steps of the episodes that ended" + _SUMMARY + ".",
}
"""Columns of training collects, after ``train/``, and of tests, after ``test/``."""

UPDATES = {
    "train_time": "Seconds of the updates after a collect, sampling included.",
    "sample_time": "The part of `train_time` for drawing samples.",
    "learning_rate": "The learning rate of the only optimizer, after the updates.",
    "learning_rate/*": "The learning rate of each of several optimizers, after the updates.",
    "loss": "The loss of the only optimizer, or of all parts together.",
    "actor_loss": "The loss of the actor.",
    "critic_loss": "The loss of the critics.",
    "critic1_loss": "The loss of the first critic.",
    "critic2_loss": "The loss of the second critic.",
    "vf_loss": "The squared error of state values; it is multiplied by `vf_coef` in `loss`.",
    "value_loss": "IQL: the expectile loss of state values.",
    "ent_loss": "The mean entropy of the policy. It is no loss: larger is more random.",
    "clip_loss": "PPO: the clipped surrogate loss of the actor.",
    "approx_kl": "PPO: how far the policy has moved from the one that acted, an estimate of the KL divergence.",
    "clip_fraction": "PPO: the share of rows whose ratio of probabilities is beyond `eps_clip`.",
    "gradient_steps": "PPO with target_kl: the number of gradient steps on the roll-out.",
    "explained_variance": "PPO: the share of the variance of returns that the critic explains, before the update.",
    "alpha": "SAC and its variants: the temperature, the weight of the entropy.",
    "alpha_loss": "The loss of the temperature, where it is learned.",
    "reward_divisor": "XQC: what rewards are divided by.",
    "kl": "NPG, TRPO: the KL divergence between the policies before and after a step.",
    "step_size": "TRPO: the share of the natural step that was taken.",
    "quantile_loss": "FQF: the loss of the quantiles.",
    "fraction_loss": "FQF: the loss of the fractions.",
    "entropy_loss": "FQF: the entropy of the fractions.",
    "cql_loss": "CQL: how much values of other actions exceed those of the data.",
    "cql_alpha": "CQL: the weight of the conservative loss, where it is learned.",
    "cql_alpha_loss": "CQL: the loss of that weight.",
    "qr_loss": "Discrete CQL: the quantile regression loss.",
    "q_loss": "Discrete BCQ: the loss of action values.",
    "i_loss": "Discrete BCQ: the loss of the imitator.",
    "reg_loss": "Discrete BCQ: the penalty of large logits of the imitator.",
    "vae_loss": "BCQ: the loss of the variational autoencoder.",
    "disc_loss": "GAIL: the loss of the discriminator.",
    "acc_pi": "GAIL: the share of the policy's rows that the discriminator recognises.",
    "acc_exp": "GAIL: the share of the expert's rows that the discriminator recognises.",
    "icm_loss": "Curiosity: the loss of the module.",
    "icm_forward_loss": "Curiosity: the error of predicted features.",
    "icm_inverse_loss": "Curiosity: the loss of predicted actions.",
    "psrl_rew_mean": "PSRL: the mean of the rewards in the model.",
    "psrl_rew_std": "PSRL: their standard deviation.",
}
"""Columns of updates, after ``update/``: averages over the gradient steps since the last collect."""

SAVES = {
    "epoch": "The epoch of a checkpoint.",
    "env_step": "Its environment step.",
    "gradient_step": "Its gradient step.",
}
"""Columns of checkpoints, after ``save/``."""

TOTALS = {
    "gradient_step": "Gradient steps so far.",
    "best_reward": "The best mean return of a test so far.",
    "best_reward_std": "The standard deviation of the returns in that test.",
    "train_step": "Environment steps of training so far.",
    "train_episode": "Episodes of training so far.",
    "test_step": "Environment steps of tests so far.",
    "test_episode": "Episodes of tests so far.",
    "peak_memory": "The most memory that the process has had, in MiB; not on Windows.",
    "timing/total_time": "Seconds since the run began.",
    "timing/train_time": "Seconds without those of tests.",
    "timing/train_time_collect": "Seconds of training collects.",
    "timing/train_time_update": "Seconds of updates.",
    "timing/train_time_sample": "Seconds of drawing samples, a part of those of updates.",
    "timing/test_time": "Seconds of tests.",
    "timing/update_speed": "Environment steps of training per second of `timing/train_time`.",
}
"""Columns at the end of an epoch, after ``info/``."""

_PARTS = {"": ROWS, "train/": COLLECTS, "test/": COLLECTS, "update/": UPDATES, "save/": SAVES, "info/": TOTALS}
METRICS = {prefix + name: meaning for prefix, part in _PARTS.items() for name, meaning in part.items()}
"""All columns and their meanings; a ``*`` stands for the rest of a name."""


def meaning_of(column: str) -> str | None:
    """Returns what a column of ``metrics.csv`` means.

    :param column: the name of the column.
    :return: a sentence; None for a column that the library does not write.

    >>> meaning_of("train/returns_stat/mean")
    'Sums of rewards of the episodes that ended, unscaled and undiscounted, their mean, standard deviation, ...'
    """
    return next((meaning for name, meaning in METRICS.items() if fnmatchcase(column, name)), None)


def table(part: dict[str, str], prefix: str = "") -> str:
    """Returns a table in Markdown, as it is in ``docs/metrics.md``.

    :param part: columns and their meanings.
    :param prefix: what their names begin with.
    """
    rows = [f"| `{prefix}{name}` | {meaning} |" for name, meaning in part.items()]
    return "\n".join(["| column | meaning |", "|---|---|", *rows])
