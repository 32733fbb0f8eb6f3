import os
import signal

import pytest

from rlfast.utils.runtime.interrupt import Interrupt

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_the_second_does_not(number):
    before, asked = signal.getsignal(number), []
    if before is signal.SIG_IGN:
        pytest.skip("the tests run under nohup")
    with Interrupt(lambda: asked.append(number)) as interrupt:
        assert not interrupt.happened
        os.kill(os.getpid(), number)
        assert interrupt.happened
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert asked == [number]
    assert signal.getsignal(number) is before


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt(lambda: None) as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not interrupt.happened
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
