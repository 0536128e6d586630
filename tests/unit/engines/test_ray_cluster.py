"""Two nodes of Ray on this machine: the same answers as one process, whatever dies meanwhile."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers.sounds import write_sounds
from helpers.works import Both, Die, Note, Refuse, chunks_of, noted, workers
from unitail.cli.main import app
from unitail.engines.answering import AnswerChunk
from unitail.engines.encoding import EncodeChunk
from unitail.engines.engine import Engine
from unitail.engines.local import LocalEngine
from unitail.engines.ray_cluster import QUIET, RayEngine
from unitail.engines.results import ChunkFolder
from unitail.engines.sources import open_rows
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput, UserError
from unitail.inputs.read import read_labelled
from unitail.workflows.fit import fit_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets and pipes of Ray's own
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TESTS = Path(__file__).parents[2]
MEMORY = 80 * 2**20
"""Of a node's store of objects, as little as Ray allows."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'unitail[scale]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        patch.setenv("RAY_raylet_start_wait_time_s", "120")  # where other tests take the cores
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *sys.path]))  # for the workers
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
        nodes = Cluster(initialize_head=False)
        try:
            nodes.add_node(**head)
            nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
        except Exception as error:
            nodes.shutdown()
            pytest.skip(f"the two nodes did not start: {error}")
        RayEngine(1, address=nodes.address)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


def test_two_nodes_give_what_one_process_gives(tmp_path: Path) -> None:
    """Vectors to the last bit, answers to 1e-6; that banks are equal, too, is in `test_job`."""
    sounds = write_sounds(tmp_path / "sounds")
    (sounds / "hum" / "broken.wav").write_bytes(b"RIFF")
    examples = read_labelled(write_sounds(tmp_path / "known", count=2))
    classifier = fit_files(examples, device="cpu").classifier
    engines: dict[str, Engine] = {"one": LocalEngine(), "two": RayEngine(2)}
    for name, engine in engines.items():
        rows = open_rows([str(sounds)], like=examples)
        vectors, answers = (ChunkFolder(Storage(tmp_path / f"{name} {i}")) for i in range(2))
        encode = EncodeChunk("log-mel", "cpu", rows.reading, vectors)
        answer = AnswerChunk(classifier, rows.reading, answers, 0.9, 3)
        reports = list(engine.map(Both(encode, answer), rows.source.chunks(3)))
        assert sum(report.rows for report in reports) == 13
        assert sum(report.unreadable for report in reports) == 1
    numbers = ("probability", "probability_2", "probability_3", "novelty")
    for index in range(5):
        one, two = (ChunkFolder(Storage(tmp_path / f"{n} 0")).read(index) for n in engines)
        assert one.equals(two)
        one, two = (ChunkFolder(Storage(tmp_path / f"{n} 1")).read(index) for n in engines)
        for row, same in zip(one.to_pylist(), two.to_pylist(), strict=True):
            for name in numbers:
                assert row.pop(name) == pytest.approx(same.pop(name), abs=1e-6)
            assert row == same


def test_the_command_asks_a_cluster(
    cluster: Any,  # noqa: ANN401 - of Ray
    tmp_path: Path,
) -> None:
    """`unitail encode --engine ray`; `predict` and `data prepare` choose engines the same way."""
    sounds = write_sounds(tmp_path / "sounds", count=2)
    command = ["encode", str(sounds), "--name", "toy", "--device", "cpu", "-o"]
    options = ["--engine", "ray", "--address", cluster.address, "--workers", "1"]
    for name, more in (("one", []), ("ray", options)):
        found = CliRunner().invoke(app, [*command, str(tmp_path / name), *more])
        assert found.exit_code == 0, found.output
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "ray" / path.name).read_bytes()


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=2, times=1)
    reports = list(RayEngine(2).map(work, chunks_of(8)))
    assert sorted(report.index for report in reports) == list(range(8))
    assert noted(tmp_path) == list(range(24))
    assert len(list(tmp_path.glob("death*"))) == 1


def test_rows_that_kill_every_worker_are_named(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=1, times=9)
    with pytest.raises(UserError, match="3 workers that died of rows 4 to 6"):
        list(RayEngine(1).map(work, chunks_of(4)))


def test_an_error_of_the_work_comes_back_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="this chunk is wrong: got 2; allowed: others"):
        list(RayEngine(1).map(Refuse(Note(tmp_path), at=2), chunks_of(4)))


def test_what_the_cluster_has_no_room_for_is_said(tmp_path: Path) -> None:
    engine = RayEngine(1, gpus=1.0, start_seconds=1.0)
    with pytest.raises(
        UserError, match=r"no worker could be started: got none in 1 s; .* free CPU"
    ):
        list(engine.map(Note(tmp_path), chunks_of(1)))
    assert RayEngine().workers == 2  # as many as there is room for


def test_a_node_that_is_removed_costs_nothing(
    cluster: Any,  # noqa: ANN401 - of Ray
    tmp_path: Path,
) -> None:
    """Last, as a node is missing from then on."""
    reports = RayEngine(2).map(Note(tmp_path), chunks_of(40))
    done = [next(reports) for _ in range(4)]
    [node] = [each for each in cluster.list_all_nodes() if not each.head]
    cluster.remove_node(node, allow_graceful=False)
    done += reports
    assert sorted(report.index for report in done) == list(range(40))
    assert noted(tmp_path) == list(range(120))
    assert len(workers(tmp_path)) >= 1
