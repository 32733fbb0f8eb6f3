import numpy as np
import pytest

from rlfast.utils.logger import BaseLogger, LazyLogger, LoggerGroup


class Recording(BaseLogger):
    def __init__(self, **intervals):
        super().__init__(**intervals)
        self.entries, self.saved, self.closed = [], [], False

    def write(self, step_type, step, data):
        self.entries.append((step_type, step, data))

    def save_data(self, epoch, env_step, gradient_step, save_checkpoint_fn=None):
        self.saved.append((epoch, env_step, gradient_step))
        if save_checkpoint_fn is not None:
            save_checkpoint_fn(epoch, env_step, gradient_step)

    def restore_data(self):
        return self.saved[-1] if self.saved else (0, 0, 0)

    def close(self):
        self.closed = True


def test_numbers_are_kept_by_flat_names():
    data = {"a": 1, "b": {"c": np.float32(2.5), "d": {"e": 3}}, "text": "x", "none": None, "array": np.ones(2)}
    flat = BaseLogger.prepare_dict_for_logging(data, "train")
    assert flat == {"train/a": 1, "train/b/c": 2.5, "train/b/d/e": 3}
    with_arrays = BaseLogger.prepare_dict_for_logging(data, delimiter=".", exclude_arrays=False)
    assert set(with_arrays) == {"a", "b.c", "b.d.e", "array"}


@pytest.mark.pitfall("F9")
@pytest.mark.parametrize(
    ("method", "axis", "interval"),
    [
        ("log_train_data", "train/env_step", "train_interval"),
        ("log_test_data", "test/env_step", "test_interval"),
        ("log_update_data", "update/gradient_step", "update_interval"),
        ("log_info_data", "info/epoch", "info_interval"),
    ],
)
def test_each_kind_has_its_axis_and_interval(method, axis, interval):
    logger = Recording(**{interval: 10})
    for step in (0, 5, 9, 12, 19, 22):
        getattr(logger, method)({"x": step}, step)
    scope = axis.split("/")[0]
    assert logger.entries == [(axis, step, {f"{scope}/x": step}) for step in (9, 19)]


def test_lazy_logger_saves_checkpoints():
    saved = []
    logger = LazyLogger()
    logger.log_train_data({"x": 1}, 5000)
    logger.save_data(1, 2, 3, lambda *where: saved.append(where) or "path")
    assert saved == [(1, 2, 3)]
    assert logger.restore_data() == (0, 0, 0)


def test_a_group_tells_all_and_saves_once():
    first, second = Recording(train_interval=1), Recording(train_interval=100)
    group, saved = LoggerGroup([first, second]), []
    for step in (50, 99, 150):
        group.log_train_data({"x": 1}, step)
    assert [len(first.entries), len(second.entries)] == [3, 1]
    for method in ("log_test_data", "log_update_data", "log_info_data"):
        getattr(group, method)({"x": 1}, 5000)
        assert first.entries[-1] == second.entries[-1]
    group.write("own/axis", 3, {"y": 2})
    assert second.entries[-1] == ("own/axis", 3, {"y": 2})
    group.save_data(1, 2, 3, lambda *where: saved.append(where) or "path")
    assert saved == [(1, 2, 3)]
    assert first.saved == second.saved == [(1, 2, 3)]
    assert group.restore_data() == (1, 2, 3)
    group.close()
    assert first.closed
    assert second.closed
    with pytest.raises(ValueError, match="at least one"):
        LoggerGroup([])


def test_arrays_are_written_where_asked_for():
    logger = Recording(train_interval=1, exclude_arrays=False)
    logger.log_train_data({"returns": np.ones(2), "n": 1}, 1)
    (_, _, data), *_ = logger.entries
    assert data["train/returns"].tolist() == [1, 1]
    assert data["train/n"] == 1


def test_preparing_in_the_way_of_tianshou_1_1():
    class Later(Recording):
        def prepare_dict_for_logging(self, log_data):
            return {name.upper(): value for name, value in log_data.items()}

    logger = Later(train_interval=1)
    logger.log_train_data({"n": 1}, 1)
    assert logger.entries == [("train/env_step", 1, {"N": 1})]


def test_a_logger_that_does_not_call_our_constructor():
    class Own(Recording):
        def __init__(self):
            self.entries, self.train_interval, self.last_log_train_step = [], 1, -1

    logger = Own()
    logger.log_train_data({"n": 1, "a": np.ones(1)}, 1)
    assert logger.entries == [("train/env_step", 1, {"train/n": 1})]


def test_finalize_closes():
    logger = Recording()
    logger.finalize()
    assert logger.closed


def test_what_cannot_be_read_back(tmp_path):
    assert LazyLogger.restore_logged_data(str(tmp_path)) == {}
    with pytest.raises(NotImplementedError, match="cannot read its logs"):
        Recording.restore_logged_data(str(tmp_path))


def test_a_logger_needs_write_alone():
    class Own(BaseLogger):
        def __init__(self):
            super().__init__(train_interval=1)
            self.written = []

        def write(self, step_type, step, data):
            self.written.append((step_type, step, data))

    logger, saved = Own(), []
    logger.log_train_data({"n": 3}, 10)
    logger.save_data(1, 10, 5, lambda *numbers: saved.append(numbers) or "path")
    logger.save_data(1, 10, 5)
    assert logger.written == [("train/env_step", 10, {"train/n": 3})]
    assert saved == [(1, 10, 5)]
    with pytest.raises(NotImplementedError, match="Own keeps no counters to resume from: override save_data"):
        logger.restore_data()
