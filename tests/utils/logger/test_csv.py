import csv

import numpy as np
import pytest

from rlfast.utils.logger import CSVLogger, JSONLLogger


@pytest.fixture(params=[CSVLogger, JSONLLogger])
def make(request, tmp_path):
    return lambda **intervals: request.param(tmp_path / "metrics", **intervals)


def test_rows_tell_what_where_and_when(make):
    logger = make(train_interval=1)
    logger.log_train_data({"returns_stat": {"mean": np.float32(1.5)}, "n": np.int64(3)}, 64)
    (row,) = logger.rows()
    assert (row["scope"], row["axis"], int(row["step"])) == ("train", "env_step", 64)
    assert float(row["train/returns_stat/mean"]) == 1.5
    assert int(row["train/n"]) == 3
    assert float(row["time"]) >= 0


def test_a_new_figure_adds_a_column_and_keeps_the_rows(tmp_path):
    logger = CSVLogger(tmp_path / "metrics.csv")
    logger.write("test/env_step", 1, {"a": 1})
    logger.write("test/env_step", 2, {"b": 2})
    logger.write("test/env_step", 3, {"a": 3, "b": 4})
    with logger.path.open(newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["scope", "axis", "step", "time", "a", "b"]
    assert [row[4:] for row in table[1:]] == [["1", ""], ["", "2"], ["3", "4"]]
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.csv"]


def test_what_json_does_not_have_is_null(tmp_path):
    logger = JSONLLogger(tmp_path / "metrics.jsonl")
    logger.write("test/env_step", 1, {"a": np.nan, "b": np.float32(np.inf), "c": 1.5})
    assert "NaN" not in logger.path.read_text()
    assert [logger.rows()[0][name] for name in "abc"] == [None, None, 1.5]


def test_unfinished_line_is_dropped(make):
    logger = make()
    logger.write("test/env_step", 1, {"a": 1})
    logger.write("test/env_step", 2, {"a": 2})
    logger.path.write_bytes(logger.path.read_bytes()[:-3])
    again = make()
    again.write("test/env_step", 3, {"a": 3})
    assert [int(row["step"]) for row in again.rows()] == [1, 3]


def test_blank_lines_are_no_rows(make):
    logger = make(train_interval=1)
    logger.write("train/env_step", 1, {"a": 1})
    with logger.path.open("a") as file:
        file.write("\n")
    assert [int(row["step"]) for row in make().rows()] == [1]
    again = make(train_interval=1)
    again.write("train/env_step", 2, {"a": 2})
    assert [int(row["step"]) for row in again.rows()] == [1, 2]


@pytest.mark.pitfall("F9")
def test_another_run_goes_on_where_the_file_ends(make):
    logger, saved = make(train_interval=10, save_interval=2), []
    for epoch in (1, 2, 3):
        logger.save_data(epoch, 100 * epoch, 10 * epoch, lambda *where: saved.append(where) or "path")
    assert saved == [(1, 100, 10), (3, 300, 30)]  # every second epoch
    logger.save_data(9, 900, 90)  # nothing to save: nothing to go on from
    again = make(train_interval=10)
    assert again.restore_data() == (3, 300, 30)
    again.log_train_data({"x": 1}, 305)  # within an interval of what is there
    again.log_train_data({"x": 1}, 310)
    assert [int(row["step"]) for row in again.rows() if row["scope"] == "train"] == [310]


def test_an_empty_file_restores_zeros(make):
    assert make().restore_data() == (0, 0, 0)


def test_state_counts_old_and_new_rows(make):
    for step in range(2):
        make().write("test/env_step", step, {"a": step})
    logger = make()
    state = logger.state_dict()
    for step in range(3):
        logger.write("test/env_step", 10 + step, {"b": step})
        assert logger.state_dict()["rows"] == 3 + step
    logger.load_state_dict(state)
    assert [int(row["step"]) for row in logger.rows()] == [0, 1]
    logger.write("test/env_step", 20, {"a": 1})
    assert logger.state_dict()["rows"] == len(logger.rows()) == 3
