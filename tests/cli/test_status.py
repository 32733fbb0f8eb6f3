import json

import pytest

from rlfast.cli.main import main
from rlfast.cli.status import newest_figures


def written(folder, *rows, algorithm="dqn"):
    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.run_dir import write_config

    folder.mkdir()
    write_config(folder, ALGORITHMS[algorithm].config(max_steps=5000), algorithm)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def row(scope, axis, step, **figures):
    return {"scope": scope, "axis": axis, "step": step, "time": 1.5} | {f"{scope}/{k}": v for k, v in figures.items()}


def test_the_newest_figures_are_shown(run_dir, capsys):
    ray = {"steps_per_second": 812.34, "samples_per_insert": 31.5, "samples_per_insert_wanted": 32.0, "rows": 4096.0}
    rows = [
        row("ray", "env_step", 1024, **ray | {"steps_per_second": 1.0}),
        row("update", "gradient_step", 77, loss=0.5),
        row("ray", "env_step", 2048, **ray),
        {"scope": "test", "axis": "env_step", "step": 2000, "time": 2.0, "test/returns_stat/mean": -160.25},
        row("ray", "env_step", 2049, rows=4097.0),
    ]
    written(run_dir, *rows)
    assert main(["status", str(run_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line[:36].strip(): line[36:] for line in lines}
    assert shown == {
        "environment steps": "2,049 of 5,000",
        "gradient steps": "77",
        "environment steps per second": "812.34",
        "samples per insert": "31.5, wanted 32",
        "rows in the shards": "4,097",
        "mean return of the last test": "-160.25",
    }


def test_a_run_that_learns_from_data_is_as_far_as_its_gradient_steps(run_dir, capsys):
    rows = [row("test", "env_step", 256 * 4000, **{"returns_stat/mean": 7.0}), row("update", "gradient_step", 3999)]
    written(run_dir, *rows, algorithm="il")
    assert main(["status", str(run_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["gradient", "steps", "4,000", "of", "5,000"],
        ["mean", "return", "of", "the", "last", "test", "7"],
    ]


def test_newer_figures_replace_older_ones():
    rows = [row("ray", "env_step", 1, rows=2.0, orders_in_flight=3.0), row("ray", "env_step", 5, rows=4.0)]
    assert newest_figures(rows) == {"ray/rows": 4.0, "ray/orders_in_flight": 3.0, "env_step": 5}
    assert newest_figures([]) == {}


@pytest.mark.parametrize("content", [None, ""])
def test_a_run_without_figures(content, run_dir, capsys):
    written(run_dir)
    if content is None:
        (run_dir / "metrics.jsonl").unlink()
    assert main(["status", str(run_dir)]) == 1
    assert capsys.readouterr().err == f"rlfast: {run_dir} has no figures yet\n"


def test_a_folder_that_is_no_run(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"rlfast: {tmp_path} is no run folder: it has no config.json\n"


def test_a_damaged_log_is_named(run_dir, capsys):
    written(run_dir)
    (run_dir / "metrics.jsonl").write_text("{nonsense\n{}\n")
    assert main(["status", str(run_dir)]) == 2
    assert "metrics.jsonl is damaged" in capsys.readouterr().err
