import pytest
from PIL import Image

from rlfast.experiment.report.plot import compare, learning_curve
from rlfast.experiment.run_dir import write_config
from rlfast.utils.logger import CSVLogger


def log(run_dir, tests):
    logger = CSVLogger(run_dir / "metrics.csv", train_interval=1)
    for step in range(0, 100, 10):
        logger.log_train_data({"returns_stat": {"mean": float(step)}}, step)
    for step in tests:
        logger.log_test_data({"returns_stat": {"mean": 2.0 * step, "std": 1.0}}, step)


@pytest.mark.parametrize("tests", [(0, 50, 100), ()])
def test_a_picture_is_drawn(tmp_path, tests):
    log(tmp_path, tests)
    path = learning_curve(tmp_path, title="DQN", target=150.0)
    assert path == tmp_path / "learning_curve.png"
    with Image.open(path) as image:
        width, height = image.size
        assert image.format == "PNG"
        assert width > height > 300
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20  # more than an empty frame


def test_the_curves_are_what_was_logged(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    log(tmp_path, (0, 50))
    lines = {}
    plot = Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda self, x, y, **how: lines.update({how["label"]: (x, y)}) or plot(self, x, y, **how)
    )
    learning_curve(tmp_path)
    assert lines["test"] == ([0, 50], [0.0, 100.0])
    assert lines["training"] == (list(range(0, 100, 10)), [float(step) for step in range(0, 100, 10)])


def test_there_may_be_nothing_to_draw(tmp_path):
    assert learning_curve(tmp_path).exists()


def run(folder, config, scale):
    folder.mkdir()
    write_config(folder, config, "dqn")
    logger = CSVLogger(folder / "metrics.csv")
    for step in (0, 100):
        logger.log_test_data({"returns_stat": {"mean": float(scale * step), "std": 1.0}}, step)
    return folder


def test_seeds_are_put_together_and_environments_are_not(tiny, tmp_path):
    folders = [run(tmp_path / f"a{scale}", tiny(seed=scale), scale) for scale in (1, 2, 3)]
    folders.append(run(tmp_path / "b", tiny(env="Acrobot-v1"), 7))
    curves = compare(folders, tmp_path / "curves.png")
    assert {name: curve.runs for name, curve in curves.items()} == {"DQN, CartPole-v1": 3, "DQN, Acrobot-v1": 1}
    assert curves["DQN, CartPole-v1"].iqm[-1] == pytest.approx(200.0)
    assert curves["DQN, CartPole-v1"].low[-1] == pytest.approx(100.0)
    assert curves["DQN, CartPole-v1"].high[-1] == pytest.approx(300.0)
    assert curves["DQN, Acrobot-v1"].iqm[-1] == 700.0
    with Image.open(tmp_path / "curves.png") as image:
        assert image.size == (2100, 675)  # two panels of 7 x 4.5 inches
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20


def test_what_cannot_be_compared(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run folder"):
        compare([tmp_path], tmp_path / "x.png")
    folder = run(tmp_path / "a", tiny(), 1)
    (folder / "metrics.csv").unlink()
    with pytest.raises(ValueError, match="has no tests yet"):
        compare([folder], tmp_path / "x.png")
    (folder / "metrics.csv").write_bytes(b"\0\0\n\0\n")
    with pytest.raises(ValueError, match="damaged: its rows do not fit its columns; move it away"):
        compare([folder], tmp_path / "x.png")
    again = run(tmp_path / "b", tiny(), 1)
    with pytest.raises(ValueError, match="is given twice: it would count as two seeds"):
        compare([again, again.parent / "." / "a" / ".." / "b"], tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()
