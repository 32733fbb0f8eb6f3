import os
import signal

import pytest

from rlfast.utils.runtime.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_does_not(number):
    before, asked = signal.getsignal(number), []
    with Interrupt(lambda: asked.append(number)) as interrupt:
        assert not interrupt.happened
        os.kill(os.getpid(), number)
        assert interrupt.happened
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert asked == [number]
    assert signal.getsignal(number) is before
