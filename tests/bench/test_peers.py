"""Scripts that measure beside other methods; packages that hold some have stand-ins."""

import runpy
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.forks import finish, fork
from helpers.known_learners import write_blobs
from helpers.markdown import lines
from helpers.scripts import ROOT, run_script
from unitail.framework.episode import Support

EASYFSL = """
import torch

class Nearest(torch.nn.Module):
    def __init__(self, use_softmax, **options):
        super().__init__()
    def process_support_set(self, features, classes):
        ways = int(classes.max()) + 1
        self.means = torch.stack([features[classes == k].mean(0) for k in range(ways)])
    def forward(self, queries):
        return torch.softmax(-torch.cdist(queries, self.means), dim=-1)

BDCSPN = LaplacianShot = PTMAP = TIM = TransductiveFinetuning = Nearest
"""
TABPFN = """
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import check_array, check_X_y

class TabPFNClassifier(KNeighborsClassifier):
    def __init__(self, device):
        super().__init__(1)
        self.device = device
    def fit(self, X, y):
        check_X_y(X, y, force_all_finite=False)
        return super().fit(X, y)
"""


RUN = "import runpy, sys; sys.path[:0] = {paths}; runpy.run_path({path!r}, run_name='__main__')"


def run_with(package: str, code: str, tmp_path: Path, script: str, *options: object) -> None:
    """Run a script in a process of its own, beside a stand-in for the package that it needs."""
    target = tmp_path / "site" / (package.replace(".", "/") + ".py")
    target.parent.mkdir(parents=True)
    target.write_text(code)
    name = package.split(".")[0]
    info = tmp_path / "site" / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    output = tmp_path / "output"
    code = RUN.format(paths=[str(tmp_path / "site"), str(ROOT / "bench")], path=str(ROOT / script))
    assert finish(fork(code, *options, output=output)) == 0, output.read_text()


@pytest.mark.slow
def test_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    banks, out = tmp_path / "banks", tmp_path / "out"
    write_blobs(banks, "tiny_imagenet", encoder="efflite0", classes=10, rows=16)
    for name in ("rsscn7", "dtd10"):
        write_blobs(banks, name, encoder="efflite0", classes=7, rows=60)
    options = ["--banks", banks, "--only", "*/rsscn7", "*/dtd10", "--episodes", 2, "--out", out]
    options += ["--choose-on", "efflite0/tiny_imagenet", "--choose-episodes", 2]
    options += ["--concentrations", 1]
    run_script("bench/peers.py", *options, monkeypatch=monkeypatch)
    text = (out / "README.md").read_text()
    assert "## Settings of the peers" in text
    assert "5-way 5-shot, half of the classes absent" in text
    rows = lines(out / "README.md")
    assert {"PT-MAP", "TIM, tuned", "unitail_joint"} <= {row[0] for row in rows}
    leads = [row for row in rows if row[0] == "5-way 1-shot" and row[1] == "unitail_joint"]
    assert len(leads[0]) == 2 + 7
    assert all("±" in cell for cell in leads[0][2:]), "over two data sets"
    options[options.index("--episodes") + 1] = 3
    with pytest.raises(SystemExit, match="nothing was measured on all data sets"):
        run_script("bench/peers.py", *options, "--seconds", 0, monkeypatch=monkeypatch)


def test_methods_answer_each_episode_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    methods = runpy.run_path(str(ROOT / "bench/measuring/transductive_methods.py"))
    generator = torch.Generator().manual_seed(0)
    means = 4 * torch.rand(3, 3, 1, 8, generator=generator)
    rows = (means + torch.randn(3, 3, 6, 8, generator=generator)).abs()
    classes = torch.arange(3).repeat_interleave(2).expand(3, -1)
    support = Support(features=rows[:, :, :2].flatten(1, 2), class_indices=classes, ways=3)
    queries, truth = rows[:, :, 2:].flatten(1, 2), torch.arange(3).repeat_interleave(4)
    for name, settings in methods["GRID"].items():
        peer = settings[-1]
        whole = peer.infer(support, queries)
        assert torch.allclose(whole.exp().sum(dim=-1), torch.ones(3, 12), atol=1e-4), name
        right = whole.argmax(dim=-1) == truth
        assert float(right.float().mean()) > 0.7, name
        for place in range(3):
            alone = replace(
                support,
                features=support.features[place : place + 1],
                class_indices=classes[place : place + 1],
            )
            own = peer.infer(alone, queries[place : place + 1])
            assert torch.allclose(own[0], whole[place], atol=1e-3), name
    plan = methods["transport"](torch.rand(2, 12, 3, generator=generator), 10.0)
    assert torch.allclose(plan.sum(dim=1), torch.full((2, 3), 4.0), atol=1e-3), "alike in number"
    assert torch.allclose(plan.sum(dim=2), torch.ones(2, 12), atol=1e-3)


@pytest.mark.slow
def test_the_check_beside_easyfsl(tmp_path: Path) -> None:
    """The stand-in is no such method: the page has to say so."""
    write_blobs(tmp_path / "banks", "rsscn7", encoder="efflite0", classes=7, rows=60)
    page = tmp_path / "page.md"
    options = ["--banks", tmp_path / "banks", "--only", "*/rsscn7", "--episodes", 2, "--out", page]
    run_with("easyfsl.methods", EASYFSL, tmp_path, "bench/easyfsl_check.py", *options)
    assert "easyfsl 1.0" in page.read_text()
    _, *rows = lines(page)
    assert [row[0] for row in rows][:2] == ["BD-CSPN", "LaplacianShot"]
    assert all(float(row[3]) > 0.05 for row in rows if row[0] == "TIM")


@pytest.mark.slow
def test_tabpfn_v1(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "model.cpkt").write_bytes(b"weights")
    with tarfile.open(tmp_path / "weights.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "model.cpkt", "tabpfn-0.1/models_diff/model.cpkt")
    for name in ("agnews", "banking77"):
        write_blobs(tmp_path / "banks", name, encoder="glove100", noise=0.1)
    options = ["--weights", tmp_path / "weights.tar.gz", "--banks", tmp_path / "banks"]
    options += ["--tables", "iris", "--shots", 1, "--episodes", 2, "--out", page]
    place = "tabpfn.scripts.transformer_prediction_interface"
    run_with(place, TABPFN, tmp_path, "bench/tabpfn_v1.py", *options)
    header, *rows = lines(page)
    assert header[2:] == ["unitail", "unitail, joint", "TabPFN v1", "LogisticRegression"]
    tasks = ["iris, 3 classes", "glove100/agnews, 5 classes", "glove100/banking77, 5 classes"]
    assert [row[0] for row in rows] == tasks
    assert (tmp_path / "site" / "tabpfn" / "models_diff" / "model.cpkt").read_bytes() == b"weights"
