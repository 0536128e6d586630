from unitail.evaluation.bench_run import Part
from unitail.evaluation.plots import draw_accuracy, draw_reliability
from unitail.evaluation.summary import calibration_frame, group_frame, summary_frame

PNG = b"\x89PNG"


def test_pictures_are_drawn_with_learners_that_cannot(bench_parts: list[Part]) -> None:
    groups = group_frame(summary_frame(bench_parts))
    one = groups[groups["protocol"] == "5-way 1-shot"]
    assert draw_accuracy(one, "5-way 1-shot").startswith(PNG)
    assert draw_reliability(calibration_frame(bench_parts)).startswith(PNG)
