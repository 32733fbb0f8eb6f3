"""Progress bars."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tqdm import tqdm

_logger = logging.getLogger(__name__)

tqdm_config: dict[str, Any] = {"dynamic_ncols": True, "ascii": True}
"""Options of ``tqdm`` that work on every terminal."""

_FORMAT = "{desc}{percentage:3.0f}%|{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}, {rate_fmt}]"
_WITHOUT_TOTAL = "{desc}{n_fmt} [{elapsed}{postfix}, {rate_fmt}]"
"""The texts of bars: the figures come before what is cut off at 80 columns."""

_LONG = 100_000
"""Numbers of steps from which on multiples are shown, such as 120k."""

_REFRESH = 0.1
"""Seconds between two updates of the text, which takes longer than a step of a small environment."""

_LINE = 60.0
"""Seconds between two lines where there is no terminal."""


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_notebook() -> bool:
    return "ipykernel" in sys.modules


def duration(seconds: float) -> str:
    """Returns a time in words.

    :param seconds: the time.

    >>> duration(7.6), duration(65), duration(3 * 3600 + 125)
    ('8 s', '1 min 05 s', '3 h 02 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def progress_line(done: int, total: int | None, since: tuple[float, int], unit: str = "step") -> str:
    """Returns how far something is, and the time that is left, for logs.

    :param done: the number of steps that are done.
    :param total: the number of all; None if it is not known.
    :param since: a time, by ``time.time()``, and the number of steps that were done then.
    :param unit: the name of a step.

    >>> progress_line(1500, 1500, (0.0, 0)), progress_line(1500, None, (0.0, 0))
    ('step 1,500 of 1,500 (100%)', 'step 1,500')
    """
    if not total:
        return f"{unit} {done:,}"
    line = f"{unit} {done:,} of {total:,} ({done / total:.0%})"
    pace = (time.time() - since[0]) / max(done - since[1], 1)
    return line if done >= total else f"{line}, {duration(pace * (total - done))} left"


class DummyTqdm:
    """A replacement of ``tqdm`` that counts and shows nothing.

    :param total: the number of steps.
    :param kwargs: ignored.
    """

    def __init__(self, total: int, **kwargs: Any) -> None:  # noqa: ARG002
        self.total = total
        self.n = 0

    def set_postfix(self, **kwargs: Any) -> None:
        """Shows nothing."""

    def update(self, n: int = 1) -> None:
        """Counts ``n`` steps.

        :param n: the number of steps.
        """
        self.n += n

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object, **kwargs: object) -> None:
        """Does nothing."""


class ProgressBar:
    """A progress bar with numbers beside it, written to stderr at most ten times a second.

    It is shown on terminals and in notebooks. Elsewhere, such as in a pipe or a log file, it writes a line once a
    minute.

    :param total: the number of steps; None if it is not known.
    :param description: the text before the bar.
    :param initial: the number of steps that are already done.
    :param unit: the name of a step; large numbers of "B" are shown as multiples. Default: "step".
    :param since: a time, by ``time.time()``, and the number of steps that were done then: the pace of all since then
        gives the time that is left. Default: the pace of the newest steps gives it.
    :param leave: whether the bar stays when it is closed.
    :param shown: if False, the bar counts and shows nothing.
    """

    def __init__(
        self,
        total: int | None,
        description: str = "",
        *,
        initial: int = 0,
        unit: str = "step",
        since: tuple[float, int] | None = None,
        leave: bool = True,
        shown: bool = True,
    ) -> None:
        self.total = total
        self.n = initial
        self._figures: dict[str, int | float | str] = {}
        self._written = 0.0
        self._bar: tqdm[Any] | None = None
        self._since = since or (time.time(), initial)
        self._name = (description and f"{description}: ", {"B": "byte"}.get(unit, unit))
        self._next_line = time.perf_counter() + _LINE if shown and sys.stderr is not None else None
        if not shown or not (_is_terminal() or _is_notebook()):
            return
        from tqdm.auto import tqdm

        start = initial if total is None else min(initial, total)
        scale = unit == "B" or (total or initial) >= _LONG
        shape: dict[str, Any] = {
            "unit": unit,
            "unit_scale": scale,
            "leave": leave,
            "desc": description and f"{description}: ",
        }
        if not _is_notebook():
            shape["bar_format"] = _WITHOUT_TOTAL if total is None else _FORMAT
        smoothing = 0.3 if since is None else 0.0  # else the pace is that of all steps
        self._bar = tqdm(total=total, initial=start, file=sys.stderr, smoothing=smoothing, **shape, **tqdm_config)
        if since is not None:
            self._bar.start_t, self._bar.initial = since
        _shown.append(self)

    def update(self, n: int, figures: Mapping[str, int | float | str]) -> None:
        """Adds steps, and shows numbers.

        :param n: the number of steps.
        :param figures: the numbers by name; those of earlier calls are shown too, unless they are replaced.
        """
        self.n += n
        if self._bar is None:
            if self._next_line is not None and time.perf_counter() >= self._next_line:
                self._write_line(figures)
            return
        self._figures = dict(figures) | {name: v for name, v in self._figures.items() if name not in figures}
        now = time.perf_counter()
        if now - self._written >= _REFRESH:
            self._written = now
            self._write()
        self._bar.update(n if self.total is None else min(n, self.total - self._bar.n))

    def _write_line(self, figures: Mapping[str, int | float | str]) -> None:
        self._next_line = time.perf_counter() + _LINE
        description, unit = self._name
        parts = [progress_line(self.n, self.total, self._since, unit)]
        parts += [f"{name} {v:.4g}" if isinstance(v, float) else f"{name} {v}" for name, v in figures.items()]
        sys.stderr.write(f"{description}{', '.join(parts)}\n")
        sys.stderr.flush()

    def _write(self) -> None:
        if self._bar is not None and self._figures:
            text = {name: f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in self._figures.items()}
            self._bar.set_postfix(text, refresh=False)

    def write_note(self, text: str) -> None:
        """Shows a text in the place of the numbers, until the next ones.

        :param text: the text.
        """
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            _shown.remove(self)
            self._write()  # the final numbers
            self._bar.refresh()
            self._bar.close()


_shown: list[ProgressBar] = []
"""The bars on the terminal, the newest last."""


@contextmanager
def progress_note(text: str) -> Iterator[None]:
    """Shows a text beside the newest progress bar during a long computation, and then logs how long it took.

    :param text: what is computed.
    :return: the context.
    """
    start = time.monotonic()
    if _shown:
        _shown[-1].write_note(text)
    try:
        yield
        _logger.info("%s took %.1f s", text, time.monotonic() - start)
    finally:
        if _shown:
            _shown[-1].write_note("")
