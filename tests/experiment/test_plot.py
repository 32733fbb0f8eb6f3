import pytest
from PIL import Image

from rlfast.experiment.plot import learning_curve
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
