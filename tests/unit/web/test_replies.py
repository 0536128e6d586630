import json
import threading
import time

import pytest

from unitail.web.replies import JsonReply

CONTENTS = [
    None,
    'ü " \\ \n',
    [],
    {},
    [1],
    list(range(10_000)),
    [0.1 + number / 7 for number in range(5000)],
    {"answers": [{"label": "a", "p": [0.25, 0.75]} for _ in range(50)], "version": 3},
    {"a": {"b": list(range(40)), 7: "x"}, "empty": [], "nested": [[1, [2, 3]]] * 33},
]


@pytest.mark.parametrize("content", CONTENTS)
def test_pieces_make_what_json_makes_at_once(content: object) -> None:
    whole = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    reply = JsonReply(content)
    assert bytes(reply.body).decode() == whole
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["content-length"] == str(len(whole.encode()))


@pytest.mark.parametrize("content", [float("nan"), [1.0] * 20 + [float("inf")], {"a": {1, 2}}])
def test_what_is_no_json_is_an_error(content: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        JsonReply(content)


def test_others_have_their_turn_while_a_large_reply_is_written() -> None:
    answers = [{"p": [number / 7 for number in range(400)]} for _ in range(1500)]
    thread = threading.Thread(target=JsonReply, args=[{"answers": answers}])
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 8  # one or two if it was written in one piece
