"""The ratio of what is sampled to what is inserted."""

from typing import Any

from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, validate_arguments


class RateLimiter:
    r"""Lets no more rows be inserted than a ratio of samples to inserts allows.

    Inserts wait while :math:`\text{samples per insert} \cdot \text{inserts} - \text{samples}` would rise above
    :math:`\text{samples per insert} \cdot (\text{min size} + \text{tolerance})`. This is the rule of
    ``SampleToInsertRatio`` of Reverb (Cassirer et al. 2021, *Reverb: A Framework for Experience Replay*,
    arXiv:2102.04736, section 3.3), with a tolerance in inserted rows. The other half of the rule, by which samples wait
    for inserts, is the learner's: it makes its gradient steps for the environment steps that have arrived.

    :param samples_per_insert: the target, > 0: rows of a gradient step times gradient steps for each environment step.
    :param min_size: number of rows that must be inserted before the first sample, at least 1.
    :param tolerance: how many rows inserts may be ahead of samples, at least 1.
    :raises TypeError: if a number is none.
    :raises ValueError: if a number is out of range.

    >>> limiter = RateLimiter(samples_per_insert=2.0, min_size=4, tolerance=3)
    >>> limiter.insertable
    7
    >>> limiter.insert(7)
    >>> limiter.insertable
    0
    >>> limiter.sample(4)
    >>> limiter.insertable
    2
    """

    @validate_arguments
    def __init__(self, samples_per_insert: PositiveFloat, min_size: PositiveInt, tolerance: PositiveInt) -> None:
        self.samples_per_insert, self.min_size, self.tolerance = samples_per_insert, min_size, tolerance
        self.inserts = self.samples = 0

    @property
    def insertable(self) -> int:
        """How many rows may be inserted now."""
        before_the_first_sample = self.min_size - self.inserts
        ahead = self.inserts - self.samples / self.samples_per_insert - self.min_size
        return max(before_the_first_sample, int(self.tolerance - ahead + _ROUNDING), 0)

    def insert(self, rows: int) -> None:
        """Counts rows that were inserted.

        :param rows: how many; negative for rows that were announced, and were not inserted after all.
        """
        self.inserts += rows

    def sample(self, rows: int) -> None:
        """Counts rows that were sampled.

        :param rows: how many.
        """
        self.samples += rows

    @property
    def ratio(self) -> float:
        """Rows sampled for each row inserted, after the first ``min_size``; 0 before there are any."""
        later = self.inserts - self.min_size
        return self.samples / later if later > 0 else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Returns the counts."""
        return {"inserts": self.inserts, "samples": self.samples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the counts.

        :param state: the result of :meth:`state_dict`.
        :raises ValueError: if a count is not a number of rows.
        """
        counts = [state.get(name) for name in ("inserts", "samples")]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"inserts and samples must be numbers of rows, got {counts!r:.80}")
        self.inserts, self.samples = (int(count) for count in counts if count is not None)


_ROUNDING = 1e-6
"""The tolerance for rounding errors in ratios that should give whole numbers of rows."""
