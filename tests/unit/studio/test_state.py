"""In what chunks items are answered, and what is looked at."""

from pathlib import Path

import numpy as np
import pytest

from helpers.studios import answered, open_studio, post, write_pictures
from unitail.studio.app import make_app
from unitail.studio.state import in_chunks
from unitail.web.access import Access


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (5, [5]), (6, [3, 3]), (11, [3, 3, 3, 2])]
)
def test_chunks_are_of_one_size_and_as_many_for_each_thread(count: int, sizes: list[int]) -> None:
    chunks = in_chunks(np.arange(count), 5, 2)
    assert [len(each) for each in chunks] == sizes
    assert [place for each in chunks for place in each.tolist()] == list(range(count))


def test_much_that_is_looked_at_comes_in_chunks_and_requests_that_tell_nothing_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.CHUNK", 5)
    write_pictures(tmp_path, 20)
    studio = answered(open_studio(tmp_path))
    app = make_app(studio, Access.at("127.0.0.1"))
    studio.apply(lambda store: store.label_by_name({"0000.png": "red", "0001.png": "green"}))
    looked_at = list(range(8, 20))
    post(app, "/api/label", {"items": {"2": 0}, "class_id": 1, "looked_at": looked_at})
    post(app, "/api/label", {"items": {"3": 0}, "class_id": 1})
    told: list[list[int]] = []
    studio.answerer._on_answers = lambda answered: told.append(answered.places.tolist())
    studio.answerer.answer_all()
    assert {8, 11, 14, 17} <= {chunk[0] for chunk in told}
    assert max(map(len, told)) <= 5
    studio.stop()
