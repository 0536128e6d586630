"""Two nodes of Ray on this machine: the same answers as one process, whatever dies meanwhile."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from helpers.sounds import write_sounds
from helpers.works import Die, Note, Refuse, chunks_of, noted, workers
from unitail.cli.main import app
from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.ray_cluster import QUIET, RayEngine
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput, UserError

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


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen files, as a data set has them, of which one is broken; and a few known ones."""
    folder = tmp_path_factory.mktemp("sounds")
    write_sounds(folder / "genres")
    (folder / "genres" / "hum" / "broken.wav").write_bytes(b"RIFF")
    write_sounds(folder / "known", count=2)
    return folder


def _both_ways(cluster: Any, workers: int, out: Path, *command: object) -> list[Path]:  # noqa: ANN401
    """Run a command with two processes and on the cluster; one file cannot be read."""
    engine = ["--engine", "ray", "--address", cluster.address]
    folders = []
    for name, more in (("here", ["--workers", 2]), ("ray", [*engine, "--workers", workers])):
        options = ["--device", "cpu", "--out", out / name, *more]
        result = CliRunner().invoke(app, [*map(str, command), *map(str, options)])
        assert result.exit_code == 1, (result.output, result.exception)
        assert "broken.wav" in result.output.replace("\n", ""), result.output
        folders.append(out / name)
    return folders


def test_encode(cluster: Any, sounds: Path, tmp_path: Path) -> None:  # noqa: ANN401
    """To the last bit; both nodes have room for one worker each."""
    command = ("encode", sounds / "genres", "--format", "parquet", "--chunk-rows", 3)
    here, ray = (ChunkFolder(Storage(each)) for each in _both_ways(cluster, 2, tmp_path, *command))
    rows = [here.read(index) for index in range(5)]
    assert sum(map(len, rows)) == 13
    assert all(ray.read(index).equals(table) for index, table in enumerate(rows))


def test_predict(cluster: Any, sounds: Path, tmp_path: Path) -> None:  # noqa: ANN401
    """To 1e-6, from a folder at an address."""
    command = ("predict", sounds / "known", f"file://{sounds}/genres", "--chunk-rows", 3)
    here, ray = (pandas.read_parquet(each) for each in _both_ways(cluster, 2, tmp_path, *command))
    assert len(here) == 13
    pandas.testing.assert_frame_equal(here, ray, rtol=0, atol=1e-6)


def test_data_prepare(cluster: Any, sounds: Path, tmp_path: Path) -> None:  # noqa: ANN401
    """To the last byte of the bank."""
    command = ("data", "prepare", "gtzan", "--root", sounds, "--any-version")
    here, ray = _both_ways(cluster, 1, tmp_path, *command)
    files = sorted(path.relative_to(here) for path in (here / "log-mel/gtzan").iterdir())
    assert len(files) > 2
    assert all((here / name).read_bytes() == (ray / name).read_bytes() for name in files)


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=2, times=1)
    reports = list(RayEngine(2).map(work, chunks_of(8)))
    assert sorted(report.index for report in reports) == list(range(8))
    assert noted(tmp_path) == list(range(24))
    assert len(list(tmp_path.glob("death*"))) == 1


def test_rows_that_kill_every_worker_are_named(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=1, times=9)
    with pytest.raises(UserError, match="3 workers that died on rows 4 to 6"):
        list(RayEngine(1).map(work, chunks_of(4)))


def test_an_error_of_the_work_comes_back_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="this chunk is wrong: got 2; allowed: others"):
        list(RayEngine(1).map(Refuse(Note(tmp_path), at=2), chunks_of(4)))


def test_too_few_resources_of_a_cluster_are_reported(tmp_path: Path) -> None:
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
