"""The kinds of vector environments, each made from a list of functions: ``face(env_fns, autoreset_mode=None,
**options)``.
"""

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial

from rlfast.env import BaseVectorEnv, DummyVectorEnv, EnvWorker, SubprocVectorEnv


class Threaded(EnvWorker):
    """A worker written by a user: its environment steps in a thread."""

    def __init__(self, env_fn):
        self.thread = ThreadPoolExecutor(1)
        self.env = self.thread.submit(env_fn).result()
        super().__init__(env_fn)

    def get_env_attr(self, key):
        return getattr(self.env, key) if key in dir(self.env) else self.env.get_wrapper_attr(key)

    def set_env_attr(self, key, value):
        setattr(self.env.unwrapped, key, value)

    def send(self, action, **kwargs):
        self.answer = (
            self.thread.submit(self.env.reset, **kwargs)
            if action is None
            else self.thread.submit(self.env.step, action)
        )

    def recv(self):
        return self.answer.result()

    @staticmethod
    def wait(workers, wait_num, timeout=None):
        while True:
            done, _ = wait([w.answer for w in workers], timeout, FIRST_COMPLETED)
            ready = [w for w in workers if w.answer in done]
            if len(ready) >= wait_num or timeout is not None:
                return ready
            wait([w.answer for w in workers if w.answer not in done], None, FIRST_COMPLETED)

    def render(self, **kwargs):
        return self.env.render(**kwargs)

    def close_env(self):
        self.env.close()
        self.thread.shutdown()


def threaded(env_fns, **options):
    return BaseVectorEnv(env_fns, Threaded, **options)


BACKENDS = {"in-process": DummyVectorEnv, "workers": threaded, "process": partial(SubprocVectorEnv, num_workers=2)}
