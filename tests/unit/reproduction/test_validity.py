from pathlib import Path

import pytest

from helpers.known_learners import write_blobs
from unitail.reproduction.run import Reproduction
from unitail.reproduction.validity import Studied, measure_validity, validity_section
from unitail.validity_study.declared import Declaration, DeclaredBank, SyntheticChoice

FEW = Declaration(
    shots=(1, 3),
    synthetic=(SyntheticChoice(width=2, ways=2),),
    banks=(DeclaredBank(bank="net/blobs", ways=3), DeclaredBank(bank="minilm/clinc150", ways=5)),
)


@pytest.fixture
def work(tmp_path: Path) -> Reproduction:
    write_blobs(tmp_path / "banks", "blobs", encoder="net", classes=3, rows=20)
    return Reproduction(
        banks=tmp_path / "banks",
        runs=tmp_path / "runs",
        folder=tmp_path / "out",
        episodes=5,
        learners=("proto_head_paper",),
        device="cpu",
    )


def test_curves_are_kept_and_not_measured_again(work: Reproduction) -> None:
    progress: list[tuple[int, int]] = []
    first = measure_validity(work, lambda *counts: progress.append(counts), declaration=FEW)
    assert progress == [(1, 2), (2, 2)]
    assert first.missing == ("minilm/clinc150, 5 classes",)
    curves = sorted((work.folder / "validity" / "curves").iterdir())
    before = [path.stat().st_mtime_ns for path in curves]
    again = measure_validity(work, declaration=FEW)
    assert [path.stat().st_mtime_ns for path in curves] == before
    assert again.study.rows() == first.study.rows()
    assert first.study.draws == 5


def test_without_banks_the_other_tasks_are_studied(work: Reproduction, tmp_path: Path) -> None:
    alone = Reproduction(**{**vars(work), "banks": tmp_path / "nothing"})
    study = measure_validity(alone, declaration=FEW).study
    assert [each.task.name for each in study.tasks] == ["gaussian, width 2, 2 classes"]


def test_the_section_has_verdicts_pictures_and_how_to_get_the_rest(work: Reproduction) -> None:
    studied = measure_validity(work, declaration=FEW)
    made = validity_section(studied)
    assert made.status == (
        "partly measured: 2 tasks, 5 support sets of each size; 1 more task without a bank"
    )
    assert [note.split(":")[0] for note in made.notes[:2]] == ["valid", "no rise"]
    verdicts, risks = made.tables
    assert verdicts.rows[0][0] == "proto_head_paper"
    assert [row[1] for row in risks.rows] == [
        "gaussian, width 2, 2 classes",
        "net/blobs, 3 classes",
    ]
    assert made.pictures is not None
    assert all(png.startswith(b"\x89PNG") for png in made.pictures.values())
    assert made.todo[0].startswith("unitail data prepare clinc150 --root ROOT --encoder minilm")
    whole = validity_section(Studied(study=studied.study))
    assert whole.status == "measured: 2 tasks, 5 support sets of each size"
