from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from helpers.short_runs import short_recipe
from unitail.learners.checkpoint import save_model
from unitail.reproduction.run import SUITES, Reproduction, how_to_get
from unitail.tail.config import TailConfig
from unitail.tail.model import Tail
from unitail.training.run_folder import RunRecord

SMALL = TailConfig(
    projected_dim=8, label_dim=4, hidden_dim=12, layers=1, heads=2, mlp_dim=16, dictionary_size=8
)


@pytest.fixture
def work(tmp_path: Path) -> Reproduction:
    write_blobs(tmp_path / "banks", "imdb", encoder="net", classes=2, rows=20)
    return Reproduction(
        banks=tmp_path / "banks",
        runs=tmp_path / "runs",
        folder=tmp_path / "out",
        encoders={"distilbert": "net"},
        episodes=4,
        learners=("proto_head_paper", "linear_probe_shrunk"),
        device="cpu",
    )


def test_what_is_there_is_measured_and_the_rest_is_named(work: Reproduction) -> None:
    progress: list[tuple[int, int]] = []
    measured = work.measure("paper_cross_modal", lambda done, total: progress.append((done, total)))
    assert [result.table.name for result in measured.results] == ["net/imdb"] * 2
    assert measured.missing == ("wav2vec2/gtzan",)
    assert progress[-1] == (16, 16)
    again = work.measure("paper_cross_modal", lambda done, total: progress.append((0, 0)))
    assert len(again.results) == 2
    assert progress[-1] == (16, 16)  # nothing was measured again


def test_a_suite_without_data_is_skipped(work: Reproduction) -> None:
    measured = work.measure("paper_in_domain")
    assert measured.results == ()
    assert measured.skipped == "none of its data are here"
    assert "openclip-vit-h-14-paper/cifar_fs" in measured.missing


def test_a_suite_whose_runs_are_not_trained_is_skipped(work: Reproduction) -> None:
    measured = Reproduction(**{**vars(work), "learners": ()}).measure("paper_ablations")
    assert measured.results == ()
    assert measured.skipped == "none of its learners is trained here"
    assert "base" in measured.absent


def test_learners_that_saw_the_test_data_are_left_out_by_name(
    work: Reproduction, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "seen"
    save_model(Tail(SMALL), folder / "model")
    recipe = short_recipe(sources={"banks": {"banks": ["*"], "held_out_from": ["a"]}})
    (folder / "recipe.json").write_text(RunRecord(recipe, {"net/imdb": "hash"}).text())
    both = Reproduction(**{**vars(work), "learners": ("proto_head_paper", "seen")})
    measured = both.measure("paper_cross_modal")
    assert set(measured.results[0].evaluations) == {"proto_head_paper"}
    assert "seen was trained on classes of net/imdb" in (measured.refused or {})["seen"]
    alone = Reproduction(**{**vars(work), "learners": ("seen",)}).measure("paper_cross_modal")
    assert "all learners were trained on the test classes" in alone.skipped


def test_ways_to_get_data() -> None:
    command = how_to_get("resnet-18/cub200")
    assert command.startswith("unitail data prepare cub200 --root ROOT --encoder resnet-18 --out")
    assert "CUB_200_2011.tgz" in command
    both = how_to_get("net/pascal_voc->paintings").splitlines()
    assert [line.split()[3] for line in both] == ["pascal_voc", "paintings"]
    assert "--split train_5 " in how_to_get("minilm/banking77-train_5")
    assert how_to_get("net/mine") == "unitail encode FOLDER --encoder net --out BANKS/net/mine"


def test_the_usual_suites_are_the_papers() -> None:
    assert all(name.startswith("paper_") for name in SUITES)
