"""The scripts that measure and simulate large jobs, at their smallest size."""

import importlib
import json
import runpy
import sys
import threading
from pathlib import Path

import pytest

from helpers.markdown import lines
from helpers.scripts import ROOT, run_script
from helpers.studios import wait_until

SECONDS = {"read": 0.01, "encode": 0.4, "write": 0.01, "wall": 0.5, "cpu": 0.4}


@pytest.mark.slow
def test_rates_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "measured.md"
    options = ["--engines", "local", "--workers", 1, "--repeats", 1, "--chunks", 2]
    options += ["--chunk-rows", 2, "--answers", 8, "--pool", 16, "--out", page]
    run_script("bench/scale_out.py", *options, monkeypatch=monkeypatch)
    header, run, second, without, pool = lines(page)
    assert header[:4] == ["engine", "workers", "beside", "images / s"]
    assert run[:3] == ["local", "1", "0"]
    assert 0 < float(run[3]) <= 1.3 * float(run[5].split(" ")[0])
    assert (second, without[0], pool[0]) == (["pool", "rows / CPU s"], "0", "16")
    costs = json.loads((tmp_path / "costs.json").read_text())
    assert costs["runs"][0]["seconds"]["cpu"] > 0
    assert set(costs["dispatch_seconds"]) == set(costs["start_seconds"]) == {"local"}


@pytest.mark.slow
def test_a_gpu_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU here, with the smallest images."""
    page = tmp_path / "gpu.md"
    options = ["--device", "cpu", "--side", 32, "--networks", "EfficientNet-B0", "--out", page]
    sizes = ["--batch", 1, "--batches", 1, "--repeats", 1, "--dtypes", "float32"]
    run_script("bench/scale_gpu.py", *options, *sizes, monkeypatch=monkeypatch)
    header, row = lines(page)
    assert header == ["network", "float32"]
    assert row[0] == "EfficientNet-B0"
    assert float(row[1]) > 0


def test_memory_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--encode", 600, "--workers", 1, "--out", tmp_path / "page.md"]
    run_script("bench/scale_memory.py", *options, monkeypatch=monkeypatch)
    measured = json.loads(capsys.readouterr().out)
    assert measured["worker"] == pytest.approx(measured["main"], rel=0.1)  # it is the same process
    assert measured["busy"] > 0


def _run(
    workers: int, beside: int, rate: float, share: float, seconds: dict[str, float]
) -> dict[str, object]:
    one_turn = {"rates": [rate], "shares": [share], "cpu": [seconds["cpu"]]}
    return {"engine": "ray", "workers": workers, "beside": beside, "seconds": seconds, **one_turn}


def _costs(path: Path, *, two: float = 32.0, share: float = 0.8, slower: float = 1.0) -> Path:
    """Write what was measured; beside another, a worker may be slower."""
    hindered = {stage: slower * each for stage, each in SECONDS.items()}
    runs = [
        _run(1, 0, 16.0, 0.8, SECONDS),
        _run(2, 0, two, share, hindered),
        _run(1, 1, 16.0, 0.8, hindered),
    ]
    costs = {"chunk_rows": 8, "chunks": 4, "runs": runs}
    costs |= {"dispatch_seconds": {"ray": 0.001}, "start_seconds": {"ray": 5.0}}
    path.write_text(json.dumps(costs))
    return path


def test_the_simulator_predicts_two_workers_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, costs = tmp_path / "simulated.md", _costs(tmp_path / "costs.json")
    options = ["--workers", 8, 1024, "--chunks", 10, "--out", page]
    run_script("bench/scale_simulator.py", costs, *options, monkeypatch=monkeypatch)
    _, one, two, _, *projected = lines(page)
    assert (one[:3], two[:3]) == (["ray", "1", "16.0"], ["ray", "2", "32.0"])
    assert all(abs(float(row[place]) - 1) < 0.15 for row in (one, two) for place in (4, 6, 9))
    assert "Beyond 15%: none." in page.read_text()
    assert "Beyond 15% with the cores given: none." in page.read_text()
    assert [row[1] for row in projected] == ["8", "1,024"] * 3
    efficiency = [float(row[3]) for row in projected]
    assert efficiency[0] > 0.9  # a few CPUs wait for nobody
    assert efficiency[3] < 0.5 < efficiency[2]  # many GPUs wait for the store


def test_a_run_that_the_simulator_does_not_predict_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that hinder each other; and a machine of which others take half meanwhile."""
    page, costs = tmp_path / "simulated.md", tmp_path / "costs.json"
    for two, share, blind, given in ((22.0, 0.8, 1.45, 1.45), (16.0, 0.4, 2.0, 1.0)):
        options = [_costs(costs, two=two, share=share), "--workers", 8, "--out", page]
        run_script("bench/scale_simulator.py", *options, monkeypatch=monkeypatch)
        row = lines(page)[2]
        assert float(row[4]) == pytest.approx(blind, abs=0.1)
        assert float(row[6]) == pytest.approx(given, abs=0.1)
        named = "ray, 2 workers" if given > 1.15 else "none"
        assert f"with the cores given: {named}." in page.read_text()
        assert "Beyond 15%: ray, 2 workers." in page.read_text()


def test_workers_that_slow_each_other_are_predicted_from_one_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, costs = tmp_path / "simulated.md", _costs(tmp_path / "costs.json", two=20.0, slower=1.6)
    options = ["--workers", 8, "--chunks", 10, "--out", page]
    run_script("bench/scale_simulator.py", costs, *options, monkeypatch=monkeypatch)
    assert float(lines(page)[2][4]) == pytest.approx(1.0, abs=0.1)
    assert "Beyond 15%: none." in page.read_text()


def test_no_worker_goes_on_before_all_have_done_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    module = runpy.run_path(str(ROOT / "bench" / "scale_out.py"))
    chunk, place = next(module["empty_chunks"](1)), tmp_path / "run"
    timed = module["Timed"](module["Nothing"](), 2, place)
    worker = threading.Thread(target=timed, args=(chunk,))
    worker.start()
    wait_until(lambda: any(tmp_path.glob("run up *")))  # it has done a chunk
    worker.join(0.1)
    assert worker.is_alive()
    place.with_name("run up 0").touch()  # the other one
    worker.join(60)
    assert not worker.is_alive()
    for each in tmp_path.glob("run up *"):
        each.unlink()
    timed(chunk)  # it waits but once, or would wait for ever


def test_a_ratio_has_the_interval_of_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the machine slows both down in a turn, the ratio is known better than either rate."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    ratio = runpy.run_path(str(ROOT / "bench" / "scale_simulator.py"))["Ratio"]
    assert str(ratio.of([9.0, 18.0, 36.0], [10.0, 20.0, 40.0])) == "0.90 ± 0.00"
    assert str(ratio.of([11.0, 9.0], [10.0, 10.0])).startswith("1.00 ± 1.2")
    assert str(ratio.of([8.0], [10.0])) == "0.80"


def test_the_documentation_has_the_figures_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    module = importlib.import_module("scale_figures")
    monkeypatch.setattr(sys, "argv", ["bench/scale_figures.py", "--check"])
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 0, capsys.readouterr().out
    page = tmp_path / "scale.md"
    page.write_text(module.PAGE.read_text().replace(" GPU hours", "0 GPU hours"))
    monkeypatch.setattr(module, "PAGE", page)
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 1
    assert capsys.readouterr().out.count("is to be") == 1


def test_what_is_scarce_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that shares out, the store, a share of a core, the dead."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    module = runpy.run_path(str(ROOT / "bench" / "scale_simulator.py"))
    job, play = module["Job"], module["play"]

    def rate(**changes: float) -> float:
        options = {"workers": 10, "chunks": 400, "chunk_rows": 100, "chunk_seconds": 1.0}
        asked = job(**{**options, **changes})
        return float(play(asked).rate(asked))

    assert rate() == pytest.approx(1000, rel=0.05)
    assert rate(share=0.5) == pytest.approx(500, rel=0.05)
    assert rate(dispatch_seconds=0.2) == pytest.approx(500, rel=0.05)
    assert rate(store_rows=400.0) == pytest.approx(400, rel=0.05)
    assert rate(death_seconds=2.0, start_seconds=1.0) < 700
    assert rate(workers=20) == pytest.approx(2000, rel=0.1)
