from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from helpers.colours import MeanColour
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.errors import CannotSolve, InvalidConfig, InvalidInput, UnknownEncoder
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import Fitted
from unitail.inputs import encode as vectors
from unitail.inputs.input_encoder import ItemEncoder
from unitail.inputs.items import Items, LabelledItems, ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.learners.checkpoint import save_model
from unitail.nn.episode_model import Visibility
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.workflows import fit, predict
from unitail.workflows.fit import ClassifierOptions, check_model, fit_files
from unitail.workflows.predict import PredictOptions, predict_files

COLOUR = ItemEncoder(encoder=MeanColour(), named=False)
COLOURS = {"red": (220, 20, 20), "green": (20, 220, 20), "blue": (20, 20, 220)}


@pytest.fixture(autouse=True)
def colour_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "make_encoder", lambda *_, **__: MeanColour())


def _draw(folder: Path, number: int, seed: int) -> Path:
    """Write some images of each colour, with noise."""
    generator = np.random.default_rng(seed)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for each in range(number):
            noise = generator.integers(-20, 20, size=(8, 8, 3))
            pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{each}.png")
    return folder


@pytest.fixture
def support(tmp_path: Path) -> Path:
    return _draw(tmp_path / "support", 4, seed=0)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return _draw(tmp_path / "queries", 2, seed=1)


def _read(support: Path, queries: Path) -> tuple[LabelledItems, Items]:
    examples = read_labelled(support)
    return examples, read_unlabelled([queries], like=examples)


@pytest.mark.parametrize("joint", [False, True])
def test_images_are_answered(support: Path, queries: Path, joint: bool) -> None:
    done: list[tuple[int, int]] = []
    answers = predict_files(
        *_read(support, queries),
        ClassifierOptions(joint=joint),
        PredictOptions(top=2),
        on_progress=lambda *now: done.append(now),
    )
    assert [answer.label for answer in answers.answers] == [
        answer.name.split("/")[0] for answer in answers.answers
    ]
    assert [answer.place for answer in answers.answers] == list(range(6))
    assert answers.examples == {"blue": 4, "green": 4, "red": 4}
    assert (answers.encoder, answers.joint, answers.num_cached) == ("mean-colour", joint, 0)
    assert (answers.unreadable, answers.repeated, done[-1]) == ((), (), (18, 18))
    for answer in answers.answers:
        assert len(answer.top) == 2
        assert answer.top[0] == (answer.label, answer.probability)
        assert answer.probability >= answer.top[1][1]
        assert answer.label in answer.members
        assert 0 <= answer.novelty <= 1


@pytest.mark.parametrize(("joint", "counts"), [(False, [4, 6]), (True, [6])])
def test_it_is_reported_how_many_are_answered(
    support: Path, queries: Path, joint: bool, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, which change no answer; files that see each other are one."""
    given, done = _read(support, queries), list[tuple[int, int]]()
    whole = predict_files(*given, ClassifierOptions(joint=joint))
    monkeypatch.setattr(predict, "MAX_ROWS", 4)
    answers = predict_files(
        *given, ClassifierOptions(joint=joint), on_answered=lambda *now: done.append(now)
    )
    assert done == [(each, 6) for each in counts]
    for one, other in zip(answers.answers, whole.answers, strict=True):
        assert (one.place, one.label, one.members) == (other.place, other.label, other.members)
        assert one.probability == pytest.approx(other.probability, abs=1e-9)


def test_isolated_files_are_answered_once(
    support: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probabilities, sets and novelty follow from one answer."""
    asked: list[int] = []
    answer = Fitted.log_probabilities

    def counted(fitted: Fitted, rows: NDArray[Any]) -> NDArray[np.float64]:
        asked.append(len(rows))
        return answer(fitted, rows)

    monkeypatch.setattr(Fitted, "log_probabilities", counted)
    predict_files(*_read(support, queries))
    assert asked == [6]


def test_joint_answers_are_others(support: Path, queries: Path) -> None:
    joint, isolated = (
        [
            answer.probability
            for answer in predict_files(
                *_read(support, queries), ClassifierOptions(joint=each)
            ).answers
        ]
        for each in (True, False)
    )
    assert not np.allclose(joint, isolated, rtol=0, atol=1e-9)


def test_members_come_in_the_order_of_probability(support: Path, queries: Path) -> None:
    answers = predict_files(
        *_read(support, queries), wanted=PredictOptions(coverage=0.99)
    )  # more than 12 examples promise
    for answer in answers.answers:
        assert answer.members == tuple(label for label, _ in answer.top)


def test_classes_that_occur_equally_often_are_answered_so(support: Path, queries: Path) -> None:
    examples, items = _read(support, queries)
    answers = predict_files(
        examples,
        items,
        ClassifierOptions(joint=True, balanced=True),
        PredictOptions(top=len(examples.classes)),
    )
    total = dict.fromkeys(examples.classes, 0.0)
    for answer in answers.answers:
        for label, probability in answer.top:
            total[label] += probability
    expected = len(answers.answers) / len(total)
    np.testing.assert_allclose(list(total.values()), expected, rtol=1e-4)


def test_a_joint_answer_is_in_its_set(
    support: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        predict.TailClassifier,
        "predict_set",
        lambda self, rows, coverage, *, log_proba: log_proba == log_proba.max(1, keepdims=True),
    )
    answers = predict_files(*_read(support, queries), ClassifierOptions(joint=True))
    assert all(answer.members == (answer.label,) for answer in answers.answers)


def test_unreadable_files_are_reported_and_skipped(support: Path, queries: Path) -> None:
    (support / "red" / "0.png").write_bytes(b"")
    (queries / "blue" / "1.png").write_text("no image")
    answers = predict_files(*_read(support, queries))
    assert [(item.among, item.name) for item in answers.unreadable] == [
        ("examples", "red/0.png"),
        ("files", "blue/1.png"),
    ]
    assert "an unknown format" in answers.unreadable[1].reason
    assert answers.examples["red"] == 3
    assert [answer.place for answer in answers.answers] == [0, 2, 3, 4, 5]
    assert [answer.label for answer in answers.answers][-1] == "red"


def test_a_class_without_a_readable_example_is_refused(support: Path, queries: Path) -> None:
    for path in (support / "red").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"no example of a class can be read: got 'red'"):
        predict_files(*_read(support, queries))


def test_queries_of_which_none_can_be_read_have_no_answers(support: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"")
    examples = read_labelled(support)
    answers = predict_files(examples, read_unlabelled([tmp_path / "bad.png"]))
    assert answers.answers == ()
    assert len(answers.unreadable) == 1


def test_queries_that_equal_an_example_are_reported(support: Path, queries: Path) -> None:
    (queries / "red" / "1.png").write_bytes((support / "red" / "3.png").read_bytes())
    assert predict_files(*_read(support, queries)).repeated == ("red/1.png",)


def test_what_is_an_example_and_a_query_is_encoded_once(
    support: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cache, too: else the vectors could differ in their last bits."""
    embedded: list[int] = []
    embed = MeanColour.embed

    def counted(encoder: MeanColour, batch: Sequence[Any]) -> NDArray[np.float32]:
        embedded.append(len(batch))
        return embed(encoder, batch)

    monkeypatch.setattr(MeanColour, "embed", counted)
    (queries / "red" / "1.png").write_bytes((support / "red" / "3.png").read_bytes())
    examples, items = _read(support, queries)
    predict_files(examples, items, pool=items)
    assert sum(embedded) == 12 + 5


def test_equal_examples_with_different_labels_are_reported(support: Path, queries: Path) -> None:
    assert not predict_files(*_read(support, queries)).notes
    first = min((support / "red").iterdir())
    (support / "blue" / "odd.png").write_bytes(first.read_bytes())
    (support / "red" / "same.png").write_bytes(first.read_bytes())
    [note] = predict_files(*_read(support, queries)).notes
    red = f"red/{first.name} (red)"
    assert (
        note
        == f"Equal examples with different labels: blue/odd.png (blue) = {red} = red/same.png (red)"
    )


def test_a_second_run_encodes_nothing(support: Path, queries: Path, tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache", 2**20)
    first = predict_files(*_read(support, queries), cache=cache)
    second = predict_files(*_read(support, queries), cache=cache)
    assert (first.num_cached, second.num_cached) == (0, 18)
    assert first.answers == second.answers


def _table(path: Path, number: int, seed: int) -> Path:
    generator = np.random.default_rng(seed)
    lines = ["id,size,shape,label"]
    for place in range(number):
        label, shape = (("a", "round"), ("b", "long"))[place % 2]
        size = "" if place == 5 else f"{generator.normal(5 * (place % 2)):.3f}"
        lines.append(f"x{place},{size},{shape},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tables_are_answered(tmp_path: Path) -> None:
    examples = read_labelled(_table(tmp_path / "s.csv", 20, 0))
    items = read_unlabelled([_table(tmp_path / "q.csv", 10, 1)], like=examples)
    done: list[tuple[int, int]] = []
    answers = predict_files(examples, items, on_progress=lambda *now: done.append(now))
    assert done == [(30, 30)]
    assert [answer.label for answer in answers.answers] == ["a", "b"] * 5
    assert answers.answers[0].name == "row 1"
    assert (answers.modality, answers.encoder) == (Modality.TABLE, "columns")
    assert answers.notes == ("Column 'id' is not used: nearly as many values as rows",)
    with pytest.raises(UnknownEncoder, match="tables have one encoder: got 'minilm'"):
        predict_files(examples, items, ClassifierOptions(encoder="minilm"))


def test_a_table_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    examples = read_labelled(_table(tmp_path / "s.csv", 20, 0))
    (tmp_path / "q.csv").write_text("shape\nround\n")
    items = read_unlabelled(
        [tmp_path / "q.csv"], ReadOptions(modality=Modality.TABLE), like=examples
    )
    with pytest.raises(InvalidInput, match="lacks columns that the examples have: got no 'size'"):
        predict_files(examples, items)


def test_calls_that_are_wrong(support: Path, queries: Path) -> None:
    examples, _ = _read(support, queries)
    with pytest.raises(InvalidConfig, match="coverage"):
        PredictOptions(coverage=1.0)
    with pytest.raises(InvalidConfig, match="top"):
        PredictOptions(top=0)
    texts = Items(items=("x",), names=("x",), modality=Modality.TEXT)
    with pytest.raises(InvalidInput, match="another kind than the examples: got text"):
        predict_files(examples, texts)


def test_too_many_files_together_are_refused_in_words_of_the_command() -> None:
    def items(number: int) -> Items:
        texts = ("a",) * number
        return Items(items=texts, names=texts, modality=Modality.TEXT)

    joint, isolated = ClassifierOptions(joint=True), ClassifierOptions()
    check_model(joint.classifier(), joint, queries=items(4000))
    with pytest.raises(InvalidInput, match=r"got 4,001 files with --joint; .*Leave out --joint"):
        check_model(joint.classifier(), joint, queries=items(4001))
    check_model(isolated.classifier(), isolated, queries=items(10**6))


def test_what_the_model_cannot_do_is_refused_before_anything_is_encoded(
    support: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool, explanations and the number of joint files, with a model that learns or is saved."""

    def encode(*_: object, **__: object) -> None:
        pytest.fail("encoded")

    monkeypatch.setattr(fit, "encode", encode)
    examples, items = _read(support, queries)
    tail = ClassifierOptions(model="tail", device="cpu")
    with pytest.raises(CannotSolve, match=r"labelled rows: got --why with --model tail; .*--why"):
        predict_files(examples, items, tail, PredictOptions(why=True))
    with pytest.raises(CannotSolve, match=r"takes no pool .*: got --pool with --model tail"):
        predict_files(examples, items, tail, pool=items)
    saved = tail.classifier().fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(CannotSolve, match="takes no pool"):
        fit_files(examples, saved=saved, pool=items)
    monkeypatch.setattr(fit, "joint_limit", lambda _: 5)
    with pytest.raises(InvalidInput, match="got 6 files with --joint; allowed: at most 5"):
        predict_files(examples, items, ClassifierOptions(joint=True))


def test_a_model_of_joint_answers_serves_neither_workers_nor_a_pool(tmp_path: Path) -> None:
    """Its own visibility counts, not only --joint; the remedy names no option that is not set."""
    config = replace(PRESETS["tiny"], visibility=Visibility.JOINT)
    own = save_model(Relational(config, seed=1), tmp_path / "m")
    pool = Items(items=("a",), names=("a",), modality=Modality.TEXT)
    model = ClassifierOptions(model=str(own), device="cpu")
    with pytest.raises(InvalidConfig, match=r"with a pool .* joint answers; .* the default model"):
        check_model(model.classifier(), model, pool=pool)
    for joint in (model, ClassifierOptions(model="tail", device="cpu")):
        with pytest.raises(InvalidConfig, match="workers answer every row by itself") as caught:
            check_model(joint.classifier(), joint, workers=True)
        assert "Choose the default model, or one that was trained for" in str(caught.value)
        assert "--joint" not in str(caught.value)
    saved = TailClassifier(visibility="joint", device="cpu").fit(np.eye(4), [0, 0, 1, 1])
    for needs in ({"workers": True}, {"pool": pool}):
        with pytest.raises(InvalidConfig, match="saved classifier keeps it: fit it again without"):
            check_model(saved, ClassifierOptions(model="saved"), **needs)  # type: ignore[arg-type]
    check_model(ClassifierOptions().classifier(), ClassifierOptions(), pool=pool, workers=True)


def test_only_the_least_certain_answers_name_what_is_near(support: Path, queries: Path) -> None:
    examples, items = _read(support, queries)
    result = predict_files(examples, items, wanted=PredictOptions(cards=1))
    named = [answer for answer in result.answers if answer.nearest]
    assert [answer.place for answer in named] == [result.by_uncertainty()[0].place]
    assert [examples.labels[place] for place in named[0].nearest] == 3 * [named[0].label]
    assert not any(answer.nearest for answer in predict_files(examples, items).answers)
