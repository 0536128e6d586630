"""Check that measuring/transductive_methods.py predicts the same as easyfsl, episode by episode.

    python3 -m venv PEERS
    PEERS/bin/pip install -c constraints.txt -e . easyfsl==1.5.0
    PEERS/bin/python bench/easyfsl_check.py --banks BANKS --out results/peers/easyfsl.md

A separate environment, since easyfsl requires torchvision: importing it next to a CPU-only torch
fails without a shim, and it breaks transformers.
"""

import argparse
import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

import torch
from measuring.banks import chosen_banks
from measuring.page import Page
from measuring.transductive_methods import GRID, PREPARATIONS, Peer
from torch import Tensor

from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.episode import Support

CLASSES = {"BD-CSPN": "BDCSPN", "PT-MAP": "PTMAP"}
"""Names of classes in easyfsl that differ."""
ONLY = ("efflite0/rsscn7", "minilm/trec6", "yamnet/esc50")


def easyfsl() -> Any:  # noqa: ANN401
    """Import easyfsl, working around what torchvision requires of a CPU-only torch."""
    library: Any = torch.library  # which has no types
    shim = library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        shim.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("easyfsl.methods")


def theirs(methods: Any, peer: Peer, support: Support, query: Tensor) -> Tensor:  # noqa: ANN401
    """Predict with easyfsl, one episode at a time: log-probabilities (B, m, K)."""
    examples, queries = PREPARATIONS[peer.preparation](support.features, query)
    kind = getattr(methods, CLASSES.get(peer.method, peer.method))
    if peer.method == "PT-MAP":  # it takes roots of what is prepared already
        kind = type(kind.__name__, (kind,), {"compute_features": lambda _, images: images})
    classifier = kind(use_softmax=True, **dict(peer.options))
    answers = []
    for support_of_episode, classes, queries_of_episode in zip(
        examples, support.class_indices, queries, strict=True
    ):
        classifier.process_support_set(support_of_episode, classes)
        answers.append(classifier(queries_of_episode).detach())
    chances = torch.stack(answers).clamp_min(1e-12)
    return (chances / chances.sum(dim=-1, keepdim=True)).log()


def main() -> None:
    """Compare both and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=ONLY, help="patterns ENCODER/DATASET")
    parser.add_argument("--episodes", type=int, default=4, help="of each bank, 1 and 5 labels")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    methods, banks = easyfsl(), chosen_banks(parser, args.banks, args.only)
    page = Page(
        args.out,
        "The methods beside easyfsl's own",
        f"easyfsl {importlib.metadata.version('easyfsl')}; {args.episodes} episodes of"
        f" {', '.join(banks)} with 1 and 5 labels each, 5 classes, 10 queries of each; all settings"
        " that peers are chosen from.",
        BANKS=args.banks,
    )
    page.table(["method", "settings", "same answers, %", "largest difference of probabilities"])
    protocols = [EvaluationProtocol(shots=n, queries=10, episodes=args.episodes) for n in (1, 5)]
    episodes = [
        FixedEpisodes.of(bank, each).batch(0).episode
        for bank in banks.values()
        for each in protocols
    ]
    for name, settings in GRID.items():
        same, apart = [], []
        for peer in settings:
            for each in episodes:
                pair = each.support, each.query.features
                ours, other = peer.infer(*pair), theirs(methods, peer, *pair)
                same.append((ours.argmax(-1) == other.argmax(-1)).float().mean())
                apart.append((ours.exp() - other.exp()).abs().max())
        shown = [f"{100 * torch.stack(same).mean():.2f}", f"{torch.stack(apart).max():.1g}"]
        page.row(name, len(settings), *shown)


if __name__ == "__main__":
    main()
