import os
import signal
import subprocess

import pytest


@pytest.fixture
def start():
    """Starts commands, whose processes, and theirs, end with the test: a failure leaves nothing to the next test."""
    started = []

    def start(command):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, start_new_session=True, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
