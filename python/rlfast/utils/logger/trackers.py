"""Loggers for experiment trackers, which begin a tracker's run when the first entry is written."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rlfast.utils.logger.base import BaseLogger, LogValue
from rlfast.utils.runtime.extras import needed_by

if TYPE_CHECKING:
    from rlfast.utils.logger.base import TRestoredData

_PARAMETERS: Final = 100
"""The most parameters that MLflow takes at once."""
_LONGEST: Final = 6_000
"""The longest text of a parameter, in characters."""


class _TrackerLogger(BaseLogger):
    """What loggers for trackers have in common.

    A checkpoint has the id of the tracker's run, which a resumed run continues. Entries that were written after the
    checkpoint stay there, and are written again.
    """

    def __init__(self, intervals: Mapping[str, Any]) -> None:
        super().__init__(**intervals)
        self.run_id: str | None = None
        """The id of the tracker's run; None before the first entry."""
        self._begun = False

    @abstractmethod
    def _begin(self) -> str:
        """Begins the run, or continues that with ``run_id``, and returns its id."""

    @abstractmethod
    def _send(self, step: int, data: dict[str, LogValue]) -> None:
        """Sends an entry to the run, which has begun."""

    @abstractmethod
    def _end(self) -> None:
        """Ends the run, which has begun."""

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Sends an entry.

        :param step_type: the kind and its axis, such as ``train/env_step``.
        :param step: the position on that axis.
        :param data: numbers by name.
        """
        if not self._begun:
            self.run_id, self._begun = self._begin(), True
        self._send(step, {**data, step_type: step})

    def restore_data(self) -> tuple[int, int, int]:
        """Returns zeros: counters are in checkpoints of runs."""
        return 0, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint, with the id of the tracker's run."""
        return super().state_dict() | {"run_id": self.run_id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state; entries continue its run.

        :param state: what :meth:`state_dict` returned.
        """
        super().load_state_dict({name: value for name, value in state.items() if name != "run_id"})
        self.run_id = state.get("run_id")

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Checks a state without changing anything.

        :param state: what :meth:`state_dict` returned.
        :raises ValueError: it is damaged.
        """
        super().check_state_dict({name: value for name, value in state.items() if name != "run_id"})
        if not isinstance(state.get("run_id"), str | None):
            raise ValueError(f"run_id must be a text, got {state['run_id']!r}")

    def close(self) -> None:
        """Ends the run."""
        if self._begun:
            self._end()
            self._begun = False

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Raises an error: trackers keep their data."""
        raise NotImplementedError(f"{log_path} is read by the tracker itself")


class MLflowLogger(_TrackerLogger):
    """Sends statistics to MLflow (the extra ``mlflow``).

    :param experiment: the experiment, which is made if there is none. Default: ``"rlfast"``.
    :param name: the name of the run; None for one that MLflow makes up.
    :param tracking_uri: where MLflow stores runs: a server, or a database such as ``"sqlite:///mlflow.db"``. Default:
        the environment variable ``MLFLOW_TRACKING_URI``, or MLflow's own default.
    :param config: settings that are shown with the run.
    :param run_id: the id of a run to continue.
    :param intervals: ``train_interval``, ``test_interval``, ``update_interval`` and ``info_interval`` of
        :class:`BaseLogger`.
    :raises ImportError: MLflow is not installed.
    """

    def __init__(
        self,
        experiment: str = "rlfast",
        name: str | None = None,
        *,
        tracking_uri: str | None = None,
        config: Mapping[str, object] | None = None,
        run_id: str | None = None,
        **intervals: int,
    ) -> None:
        super().__init__(intervals)
        with needed_by("MLflowLogger"):
            import mlflow

        self._client: Any = mlflow.MlflowClient(tracking_uri)
        self._experiment, self._name, self._config, self.run_id = experiment, name, dict(config or {}), run_id

    def _begin(self) -> str:
        from mlflow.entities import Param

        client = self._client
        if self.run_id is not None:
            client.set_terminated(self.run_id, "RUNNING")
            return self.run_id
        found = client.get_experiment_by_name(self._experiment)
        number = client.create_experiment(self._experiment) if found is None else found.experiment_id
        run_id: str = client.create_run(number, run_name=self._name).info.run_id
        params = [Param(key, str(value)[:_LONGEST]) for key, value in self._config.items()]
        for first in range(0, len(params), _PARAMETERS):
            client.log_batch(run_id, params=params[first : first + _PARAMETERS])
        return run_id

    def _send(self, step: int, data: dict[str, LogValue]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, step) for name, value in data.items()]
        self._client.log_batch(self.run_id, metrics=metrics)

    def _end(self) -> None:
        self._client.set_terminated(self.run_id)


class TrackioLogger(_TrackerLogger):
    """Sends statistics to Trackio (the extra ``trackio``), which keeps them on this machine unless ``space_id`` names a
    space of the Hugging Face hub.

    :param project: the project. Default: ``"rlfast"``.
    :param name: the name of the run, which is its id; None for one that Trackio makes up.
    :param space_id: the space, ``"OWNER/NAME"``. Default: none.
    :param config: settings that are shown with the run.
    :param intervals: ``train_interval``, ``test_interval``, ``update_interval`` and ``info_interval`` of
        :class:`BaseLogger`.
    :raises ImportError: Trackio is not installed.
    """

    def __init__(
        self,
        project: str = "rlfast",
        name: str | None = None,
        *,
        space_id: str | None = None,
        config: Mapping[str, object] | None = None,
        **intervals: int,
    ) -> None:
        super().__init__(intervals)
        with needed_by("TrackioLogger"):
            import trackio

        self._trackio: Any = trackio
        self._project, self._name, self._space, self._config = project, name, space_id, dict(config or {})
        self._run: Any = None

    def _begin(self) -> str:
        self._run = self._trackio.init(
            project=self._project,
            name=self.run_id or self._name,
            space_id=self._space,
            config={key: value for key, value in self._config.items() if not key.startswith("_")},
            resume="never" if self.run_id is None else "allow",  # another run may have the same name
        )
        return str(self._run.name)

    def _send(self, step: int, data: dict[str, LogValue]) -> None:
        self._run.log({name: float(value) for name, value in data.items()}, step=step)

    def _end(self) -> None:
        self._run.finish()
