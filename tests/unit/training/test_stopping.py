import os
import signal
from collections.abc import Iterator

import pytest

from unitail.training.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_remembered_and_nothing_else_happens(number: signal.Signals) -> None:
    with StopRequest() as stop:
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert stop.asked
        assert stop.signal is number


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_the_second_signal_ends_at_once() -> None:
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_launchers_may_ask_more_than_once() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal is signal.SIGTERM


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
