import pytest

from rlfast.trainer import Callback, OfflineTrainer, OffpolicyTrainer


class Recorder(Callback):
    """Notes each call with the counters of the trainer."""

    def __init__(self):
        self.calls = []

    def note(self, name, trainer, what):
        self.calls.append((name, trainer.env_step, trainer.gradient_step, what))

    def on_step(self, trainer, stats):
        self.note("step", trainer, stats.n_collected_steps)

    def on_update(self, trainer, stats):
        self.note("update", trainer, stats.loss)

    def on_test(self, trainer, stats):
        self.note("test", trainer, stats.n_collected_episodes)

    def on_checkpoint(self, trainer, path):
        self.note("checkpoint", trainer, path)


def test_callbacks_follow_the_loop(arguments):
    recorder = Recorder()
    _, given = arguments(max_epoch=1, step_per_epoch=8, save_checkpoint_fn=lambda *where: f"saved {where}")
    trainer = OffpolicyTrainer(**given, callbacks=[recorder, Callback()])
    trainer.run()
    assert recorder.calls == [
        ("test", 0, 0, given["episode_per_test"]),
        ("step", 4, 0, 4),
        ("update", 4, 2, 1.5),
        ("step", 8, 2, 4),
        ("update", 8, 4, 3.5),
        ("checkpoint", 8, 4, "saved (1, 8, 4)"),
        ("test", 8, 4, given["episode_per_test"]),
    ]


def test_functions_are_called_after_the_callbacks(arguments):
    calls = []

    class Before(Callback):
        def before_step(self, trainer):
            calls.append(("before_step", trainer.epoch, trainer.env_step))

        def before_test(self, trainer):
            assert not trainer.policy.training
            calls.append(("before_test", trainer.epoch, trainer.env_step))

        def on_best(self, trainer):
            calls.append(("on_best", trainer.policy))

    parts, given = arguments(max_epoch=1, step_per_epoch=8)
    given |= {
        "train_fn": lambda *where: calls.append(("train_fn", *where)),
        "test_fn": lambda *where: calls.append(("test_fn", *where)),
        "save_best_fn": lambda policy: calls.append(("save_best_fn", policy)),
    }
    trainer = OffpolicyTrainer(**given, callbacks=[Before()])
    trainer.run()
    best = trainer.best_epoch  # 1 if the second test was better
    both = [(("before_test", epoch, 8 * epoch), ("test_fn", epoch, 8 * epoch)) for epoch in (0, 1)]
    steps = [(("before_step", 1, step), ("train_fn", 1, step)) for step in (0, 4)]
    saved = (("on_best", parts.policy), ("save_best_fn", parts.policy))
    assert calls == [*both[0], *saved, *steps[0], *steps[1], *both[1], *(saved * best)]


def test_collects_without_updates_call_no_update(arguments):
    recorder = Recorder()
    _, given = arguments(max_epoch=1, step_per_epoch=8, update_per_step=0.125, test_collector=None)
    OffpolicyTrainer(**given, callbacks=(recorder,)).run()
    assert [name for name, *_ in recorder.calls] == ["step", "step", "update"]


def test_callbacks_stop_training(arguments):
    class Stop(Callback):
        def on_step(self, trainer, stats):
            trainer.stop()

    parts, given = arguments(max_epoch=5, step_per_epoch=8)
    trainer = OffpolicyTrainer(**given, callbacks=[Stop()])
    trainer.run()
    assert trainer.env_step == 4
    assert len(parts.policy.updates) == 2


def test_errors_of_callbacks_end_training(arguments):
    class Fails(Callback):
        def on_update(self, trainer, stats):
            raise RuntimeError("of the user")

    _, given = arguments(max_epoch=5, step_per_epoch=8)
    with pytest.raises(RuntimeError, match="of the user"):
        OffpolicyTrainer(**given, callbacks=[Fails()]).run()


def test_offline_training_calls_updates(arguments):
    recorder = Recorder()
    parts, given = arguments(max_epoch=1, step_per_epoch=3, test_collector=None)
    buffer = parts.train_collector.buffer
    parts.train_collector.collect(n_step=8)
    options = {name: given[name] for name in ("policy", "max_epoch", "step_per_epoch", "batch_size")}
    OfflineTrainer(**options, buffer=buffer, callbacks=[recorder], verbose=False, show_progress=False).run()
    assert [(name, gradient_step) for name, _, gradient_step, _ in recorder.calls] == [("update", k) for k in (1, 2, 3)]


WRONG = {
    "no sequence": (3, "callbacks must be a sequence of Callback, got int"),
    "one callback": (Recorder(), r"callbacks is a sequence: pass \[Recorder\(...\)\]"),
    "a class": ([Recorder], "got Recorder, a class: pass an object of it"),
    "a function": ([print], "got builtin_function_or_method"),
    "None": (None, "callbacks must be a sequence of Callback, got NoneType"),
}


@pytest.mark.parametrize(("callbacks", "error"), WRONG.values(), ids=WRONG)
def test_wrong_callbacks_are_refused(callbacks, error, arguments):
    _, given = arguments()
    with pytest.raises(TypeError, match=error):
        OffpolicyTrainer(**given, callbacks=callbacks)


class Misspelled(Callback):
    def on_tests(self, trainer, stats):
        raise AssertionError

    def _on_training_start(self):
        raise AssertionError

    def online(self):
        return True


def test_methods_that_are_never_called_are_named(arguments, recwarn):
    _, given = arguments()
    OffpolicyTrainer(**given, callbacks=[Misspelled(), Recorder()])
    texts = [str(one.message) for one in recwarn]
    assert [text.split()[0] for text in texts] == ["Misspelled._on_training_start", "Misspelled.on_tests"]
    assert texts[1].endswith(
        "it calls before_step, on_step, on_update, before_test, on_test, on_best, on_checkpoint; did you mean on_test?"
    )
