import math
import sys
from types import SimpleNamespace

import pytest

from unitail.engines.choice import EngineChoice
from unitail.engines.local import LocalEngine
from unitail.errors import InvalidConfig, MissingExtra, UserError


def test_the_local_engine_needs_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    engine = EngineChoice("local", 2).make()
    assert isinstance(engine, LocalEngine)
    assert engine.workers == 2
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[scale\]'"):
        EngineChoice("ray").make()


@pytest.mark.parametrize(
    ("name", "workers", "options", "message"),
    [
        ("spark", None, {}, "--engine is unknown: got spark; allowed: local, ray"),
        ("local", 0, {}, "--workers is out of range: got 0; allowed: 1 or more"),
        ("ray", 1, {"gpus": -1.0}, "--gpus-per-worker is out of range: got -1.0"),
        ("ray", 1, {"gpus": math.inf}, "--gpus-per-worker is out of range: got inf"),
        (
            "local",
            1,
            {"address": "auto"},
            "are for a cluster: got --engine local",
        ),
        (
            "local",
            1,
            {"gpus": 0.5},
            "are for a cluster: got --engine local",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    name: str, workers: int | None, options: dict[str, object], message: str
) -> None:
    chosen = EngineChoice(name, workers, **options)  # type: ignore[arg-type]
    for refuse in (chosen.check, chosen.make):
        with pytest.raises(InvalidConfig, match=message):
            refuse()


def test_a_check_connects_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    EngineChoice("ray", 2, address="x:1", gpus=0.5).check()


def test_a_cluster_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: object) -> None:
        raise ConnectionError("nobody there")

    fake = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setitem(sys.modules, "ray", fake)
    with pytest.raises(UserError, match=r"no Ray cluster answers: got ConnectionError at 'x:1'"):
        EngineChoice("ray", address="x:1").make()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UserError, match="got ConnectionError at 'local': nobody there"):
        EngineChoice("ray", 2).make()
