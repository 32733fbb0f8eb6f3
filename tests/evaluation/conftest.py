import pytest

from rlfast.utils.logger import CSVLogger


@pytest.fixture
def write_run():
    """Writes the log of a run: returns of tests, and of training at the same steps."""

    def write(folder, steps, returns):
        folder.mkdir(parents=True)
        logger = CSVLogger(folder / "metrics.csv", train_interval=1)
        for step, mean in zip(steps, returns, strict=True):
            logger.log_train_data({"returns_stat": {"mean": mean / 2}}, step)
            logger.log_test_data({"returns_stat": {"mean": mean, "std": 0.0}}, step)

    return write
