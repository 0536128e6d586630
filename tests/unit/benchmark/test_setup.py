from pathlib import Path

from unitail.benchmark.setup import BenchSetup
from unitail.benchmark.suite_file import changed_suite, read_suite


def smoke(folder: Path, **changes: object) -> BenchSetup:
    """Return the smoke suite with two fast learners, one of which is not there."""
    facts = {"episodes": 4, "queries": 3, "learners": ["proto_head_paper", "nobody"], **changes}
    return BenchSetup(
        suite=changed_suite(read_suite("smoke"), facts),
        banks=folder / "none",
        runs=folder / "runs",
        folder=folder / "out",
        device="cpu",
    )


def test_absent_learners_of_the_suite_are_listed_and_no_error(tmp_path: Path) -> None:
    setup = smoke(tmp_path)
    run, tested = setup.open()
    assert setup.absent == ["nobody"]
    assert [each.name for each in run.learners] == ["proto_head_paper"]
    assert len(tested.tables) == 3
    named = BenchSetup(**{**vars(setup), "learners": ("proto_head_centred",)})
    assert named.absent == []
    assert [each.name for each in named.open()[0].learners] == ["proto_head_centred"]


def test_shards_are_all_of_the_work_and_nothing_twice(tmp_path: Path) -> None:
    setup = smoke(tmp_path)
    whole = [(table.name, protocol.name) for table, protocol in setup.open()[0].work()]
    shards = [
        (table.name, protocol.name)
        for index in range(4)
        for table, protocol in setup.open((index, 4))[0].work()
    ]
    assert len(whole) == 6
    assert sorted(shards) == sorted(whole)
