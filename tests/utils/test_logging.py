import builtins
import logging as standard
import re
import sys
from dataclasses import dataclass
from functools import partial

import pytest

from rlfast.utils import logging


@pytest.fixture(autouse=True)
def _handlers(monkeypatch):
    """Restores the root logger and the state of the module."""
    root = standard.getLogger()
    before, level = list(root.handlers), root.level
    monkeypatch.setattr(logging._State, "memory", None)
    monkeypatch.setattr(logging._State, "format", logging.LOG_DEFAULT_FORMAT)
    yield
    for handler in set(root.handlers) - set(before):
        handler.close()
    root.handlers[:], root.level = before, level


def test_it_has_what_the_standard_module_has():
    assert logging.getLogger is standard.getLogger
    assert logging.INFO == standard.INFO


def test_it_has_a_logger_of_its_own():
    assert logging.log is standard.getLogger("rlfast.utils.logging")


def test_run_main_gives_the_result_and_says_when(capsys):
    assert logging.run_main(lambda: 7, format="%(levelname)s %(message)s", level=standard.INFO) == 7
    assert capsys.readouterr().out.splitlines() == ["INFO Starting", "INFO Done"]


def test_run_main_logs_exceptions(capsys):
    def fails():
        raise RuntimeError("no more")

    assert logging.run_main(fails) is None
    out = capsys.readouterr().out
    assert "ERROR" in out
    assert "RuntimeError: no more" in out
    assert "Done" not in out


def test_configure_replaces_handlers():
    mine = standard.NullHandler()
    standard.getLogger().addHandler(mine)
    logging.configure(level=standard.WARNING)
    assert not logging.is_log_handler_active(mine)
    assert len(standard.getLogger().handlers) == 1
    assert standard.getLogger().level == standard.WARNING


def test_run_cli_takes_options(monkeypatch, capsys):
    pytest.importorskip("jsonargparse")

    @dataclass
    class Sampling:
        num_envs: int = 1
        """how many at once"""

    def main(sampling: Sampling, seed: int = 0) -> tuple[int, int]:
        return sampling.num_envs, seed

    monkeypatch.setattr(sys, "argv", ["script", "--sampling.num_envs", "4", "--seed=3"])
    assert logging.run_cli(main, level=standard.INFO) == (4, 3)
    monkeypatch.setattr(sys, "argv", ["script", "--help"])
    with pytest.raises(SystemExit):
        logging.run_cli(main)
    monkeypatch.setattr(sys, "argv", ["script"])
    assert logging.run_cli(partial(main, Sampling(5), seed=7), level=standard.INFO) == (5, 7)
    monkeypatch.setattr(sys, "argv", ["script", "--sampling.num_envs", "4"])
    assert logging.run_cli(partial(main, seed=7), level=standard.INFO) == (4, 7)
    assert "how many at once" in capsys.readouterr().out


def test_run_cli_says_what_it_needs(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "jsonargparse":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"'\.\[cli\]'"):
        logging.run_cli(lambda: 0)


def test_messages_go_to_files(tmp_path):
    standard.getLogger().setLevel(standard.INFO)
    handler = logging.add_file_logger(str(tmp_path / "all.log"), register_atexit=False)
    standard.getLogger("a").info("first")
    with logging.FileLoggerContext(str(tmp_path / "part.log")):
        standard.getLogger("a").info("second")
    with logging.FileLoggerContext(str(tmp_path / "none.log"), enabled=False):
        standard.getLogger("a").info("third")
    logging.remove_log_handler(handler)
    handler.close()
    standard.getLogger("a").info("fourth")
    text = (tmp_path / "all.log").read_text()
    assert re.findall("first|second|third|fourth", text) == ["first", "second", "third"]
    assert re.findall("first|second|third", (tmp_path / "part.log").read_text()) == ["second"]
    assert not (tmp_path / "none.log").exists()
    assert re.search(r"INFO\s+\d{4}-\d\d-\d\d .* a:test_messages_go_to_files - first", text)


def test_messages_are_kept_in_memory():
    standard.getLogger().setLevel(standard.INFO)
    with pytest.raises(AssertionError, match="call add_memory_logger first"):
        logging.get_memory_log()
    logging.add_memory_logger()
    logging.add_memory_logger()
    standard.getLogger("a").info("once")
    assert logging.get_memory_log().count("once") == 1


def test_datetime_tag():
    assert re.fullmatch(r"\d{8}-\d{6}", logging.datetime_tag())


def test_only_floats_at_the_top_are_rounded():
    data = {"a": 0.12345, "b": 2, "c": {"d": 0.12345}}
    assert logging.set_numerical_fields_to_precision(data, 2) == {"a": 0.12, "b": 2, "c": {"d": 0.12345}}
    assert data["a"] == 0.12345


@pytest.mark.parametrize("library", ["numba", "matplotlib"])
def test_the_details_of_other_libraries_are_left_out(library, capsys):
    logger = standard.getLogger(library)
    level = logger.level
    try:
        logger.setLevel(standard.NOTSET)
        logging.configure(level=standard.DEBUG)
        logger.debug("one of ten thousand steps")
        logger.info("something happened")
    finally:
        logger.setLevel(level)
    out = capsys.readouterr().out
    assert "something happened" in out
    assert "ten thousand" not in out
