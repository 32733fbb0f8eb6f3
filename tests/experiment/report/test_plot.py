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


def test_each_configuration_has_a_curve_labelled_by_what_differs(tiny, tmp_path):
    folders = [run(tmp_path / f"a{seed}", tiny(seed=seed), seed) for seed in (1, 2)]
    folders += [run(tmp_path / f"b{seed}", tiny(seed=seed, n_step=1, learning_rate=0.02), 7) for seed in (1, 2, 3)]
    folders += [run(tmp_path / "c", tiny(hidden_sizes=(8, 4), dueling=True), 9)]
    curves = compare(folders, tmp_path / "curves.png")
    assert {name: (curve.runs, curve.iqm[-1]) for name, curve in curves.items()} == {
        "DQN, hidden sizes 8, learning rate 0.001, dueling off, estimation step 3, CartPole-v1": (2, 150.0),
        "DQN, hidden sizes 8, learning rate 0.02, dueling off, estimation step 1, CartPole-v1": (3, 700.0),
        "DQN, hidden sizes 8-4, learning rate 0.001, dueling on, estimation step 3, CartPole-v1": (1, 900.0),
    }


@pytest.mark.parametrize(
    "changes", [{"progress": True}, {"save_buffer": False}, {"stop_return": 1e9, "require_stop_return": True}]
)
def test_what_changes_no_learning_makes_no_other_curve(tiny, tmp_path, changes):
    own = {"stop_return": 1e9} if "stop_return" in changes else {}
    folders = [run(tmp_path / "a", tiny(**own), 1), run(tmp_path / "b", tiny(seed=1, **changes), 1)]
    assert [curve.runs for curve in compare(folders, tmp_path / "x.png").values()] == [2]


def test_runs_that_were_declared_differently_are_apart(tiny, tmp_path):
    folders = [run(tmp_path / "a", tiny(), 1), run(tmp_path / "b", tiny(seed=1), 1)]
    write_config(folders[1], tiny(seed=1), "dqn", ["an actor of one's own"])
    assert [curve.runs for curve in compare(folders, tmp_path / "x.png").values()] == [1, 1]


@pytest.mark.parametrize("env_seeds", [None, (1, 2)])
def test_one_seed_does_not_count_twice(tiny, tmp_path, env_seeds):
    folders = [run(tmp_path / name, tiny(seed=3), 1) for name in "ab"]
    if env_seeds is None:
        with pytest.raises(ValueError, match=r"a and .*b are runs of the same configuration and the same seed 3"):
            compare(folders, tmp_path / "x.png")
        assert not (tmp_path / "x.png").exists()
    else:
        write_config(folders[1], tiny(seed=3, env_seeds=env_seeds), "dqn")
        assert [curve.runs for curve in compare(folders, tmp_path / "x.png").values()] == [2]


def shown_ticks(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def overlapping(figure):
    """The pairs of texts in a picture that overlap."""
    from itertools import combinations

    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    boxes = {}
    for number, axes in enumerate(figure.axes):
        texts = [*shown_ticks(axes.xaxis), *shown_ticks(axes.yaxis), axes.title, axes.xaxis.label, axes.yaxis.label]
        texts += axes.get_legend().get_texts() if axes.get_legend() else []
        for text in texts:
            if text.get_text() and text.get_visible():
                boxes[number, text.get_text(), id(text)] = text.get_window_extent(renderer)
    inside = figure.bbox
    assert all(box.x0 >= inside.x0 - 1 and box.x1 <= inside.x1 + 1 for box in boxes.values())
    return [(one[1], other[1]) for one, other in combinations(boxes, 2) if boxes[one].overlaps(boxes[other])]


@pytest.mark.parametrize("last", [123_456, 20_000_000])
def test_no_text_of_a_picture_collides_with_another(tiny, tmp_path, monkeypatch, last):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    folders = []
    for env in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3"):
        for n_step in (1, 2, 3, 4, 5):
            folder = run(tmp_path / f"{env}-{n_step}", tiny(env=env, n_step=n_step, learning_rate=n_step * 1e-3), 1)
            CSVLogger(folder / "metrics.csv").log_test_data({"returns_stat": {"mean": -1e5, "std": 1.0}}, last + 200)
            folders.append(folder)
    compare(folders, tmp_path / "x.png")
    log(folders[0], (300, 400, last + 1000))
    learning_curve(folders[0], title="DQN, CartPole-v1, seed 0", target=1e4)
    for figure in figures:
        FigureCanvasAgg(figure)
        assert overlapping(figure) == []
        axes = figure.axes[0]
        assert axes.get_title()
        assert axes.get_xlabel() == "environment steps"
        assert "return" in axes.get_ylabel()
        assert 3 <= len(shown_ticks(axes.xaxis)) <= 8
    grid = figures[0].axes
    assert len({round(axes.get_position().y0, 3) for axes in grid[:4]}) == 2  # three panels beside each other


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
