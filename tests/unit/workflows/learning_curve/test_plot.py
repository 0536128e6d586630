import struct
import sys

import pytest

from unitail.errors import MissingExtra
from unitail.workflows.learning_curve.interval import Estimate
from unitail.workflows.learning_curve.plot import draw_curve
from unitail.workflows.learning_curve.report import Line

ESTIMATE = Estimate(0.7, 0.6, 0.75)


def test_a_curve_is_drawn_with_and_without_a_forecast() -> None:
    measured = [
        Line("random splits", shots, 9, name, ESTIMATE, 0.1) for shots in (1, 10) for name in "ab"
    ]
    forecast = Line("forecast", 10.5, 0, "a", ESTIMATE, None)
    for lines in (measured, [*measured, forecast], []):
        picture = draw_curve(lines, "toy")
        width, height = struct.unpack(">II", picture[16:24])
        assert (width, height) == (910, 572)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[report\]'"):
        draw_curve([], "toy")
