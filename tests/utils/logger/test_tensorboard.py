import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from rlfast.utils.logger.tensorboard import BasicLogger, TensorboardLogger


def scalars(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_scalars_carry_their_axis(tmp_path):
    logger = TensorboardLogger(SummaryWriter(tmp_path), train_interval=1)
    logger.log_train_data({"returns_stat": {"mean": 2.0}}, 64)
    logger.log_update_data({"loss": 0.5}, 5000)
    assert scalars(tmp_path) == {"train/returns_stat/mean": [(64, 2.0)], "update/loss": [(5000, 0.5)]}
    logger.close()


@pytest.mark.pitfall("F9")
def test_another_run_goes_on_where_the_events_end(tmp_path):
    logger, saved = TensorboardLogger(SummaryWriter(tmp_path), save_interval=2), []
    for epoch in (1, 2, 3):
        logger.save_data(epoch, 100 * epoch, 10 * epoch, lambda *where: saved.append(where) or "path")
    logger.close()
    assert saved == [(1, 100, 10), (3, 300, 30)]
    again = TensorboardLogger(SummaryWriter(tmp_path), train_interval=10)
    assert again.restore_data() == (3, 300, 30)
    assert (again.last_log_train_step, again.last_log_update_step, again.last_save_step) == (300, 30, 3)
    again.close()


def test_an_empty_folder_restores_zeros(tmp_path):
    logger = TensorboardLogger(SummaryWriter(tmp_path))
    assert logger.restore_data() == (0, 0, 0)
    logger.close()


def test_the_old_name_still_works(tmp_path):
    with pytest.warns(DeprecationWarning, match="now called TensorboardLogger") as warned:
        logger = BasicLogger(SummaryWriter(tmp_path), train_interval=5)
    assert warned[0].filename == __file__
    assert isinstance(logger, TensorboardLogger)
    assert logger.train_interval == 5
    logger.close()


def test_what_was_logged_is_read_back(tmp_path):
    logger = TensorboardLogger(SummaryWriter(tmp_path), train_interval=1)
    for step in (1, 2, 3):
        logger.log_train_data({"returns_stat": {"mean": step / 2}, "n": step}, step)
    logger.finalize()
    for step in range(10_001):  # of more than these the reader takes a sample by default
        logger.writer.add_scalar("own/loss", step, step)
    logger.writer.add_scalar("own/loss/actor", 4.0, 0)
    logger.finalize()
    data = TensorboardLogger.restore_logged_data(str(tmp_path))
    assert len(data["own"]["loss"]) == 10_001
    assert data["own/loss/actor"].tolist() == [4.0]
    assert data["train"]["returns_stat"]["mean"].tolist() == [0.5, 1.0, 1.5]
    assert data["train"]["n"].tolist() == [1, 2, 3]
