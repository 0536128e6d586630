"""Accuracy on folders and tables of original files, compared with simple methods.

    python bench/raw_files.py RAW --out results/raw_files.md

RAW holds sets of original files: a folder with a subfolder per class, or a table with a column of
labels. Each is read, encoded with its offline default encoder, and predicted with all classes at
once, in random splits into 5 examples per class and the rest. All learners see the same vectors and
splits.
"""

import argparse
from pathlib import Path

from measuring.page import Page

from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.encoders.cache import default_cache
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.score import score_learners
from unitail.framework.learner import Inference
from unitail.inputs.read import read_labelled
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import Visibility
from unitail.tasks.arrays import ArrayTask
from unitail.workflows.learning_curve.data import encode_own

SETS = ("images/clothing17", "images/sign_digits", "text/clinc20.csv", "audio/spoken_digits")
MAX_QUERIES = 15


def learners() -> dict[str, Inference]:
    """Return the compared learners."""
    model = load_default()
    return {
        "unitail": InContextLearner(model),
        "unitail, joint": InContextLearner(model, visibility=Visibility.JOINT),
        "logistic regression": LinearProbe(ProbeVariant.TUNED),
        "prototypes": ProtoHead(PrototypeVariant.CENTRED),
    }


def main() -> None:
    """Measure every set and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS, help="folders and tables in RAW")
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    compared = learners()
    page = Page(
        args.out,
        "From files to answers",
        f"Accuracy in % with {args.shots} examples a class and the offline encoders; mean over"
        f" {args.splits} random splits of the set, with the 95 % interval of that mean (the rows"
        " are the same few files in every split, so it says nothing about other files). The"
        " default model was meta-trained on other images of the first two sets, not on the last"
        " two.",
        RAW=args.raw,
    )
    page.table(["set", "classes", "chance", *compared])
    for name in args.sets:
        encoded = encode_own(read_labelled(args.raw / name), cache=default_cache())
        vectors = encoded.rows
        task = ArrayTask(name=name, features=vectors.features, class_indices=vectors.class_indices)
        protocol = EvaluationProtocol(
            ways=task.ways,
            shots=args.shots,
            queries=min(MAX_QUERIES, int(task.class_sizes.min()) - args.shots),
            episodes=args.splits,
        )
        results = score_learners(compared, task, protocol).values()
        cells = [
            f"{100 * each.accuracy.mean:.1f} ± {100 * each.accuracy.half_width:.1f}"
            for each in results
        ]
        page.row(f"{name} ({encoded.encoder})", task.ways, f"{100 / task.ways:.0f}", *cells)


if __name__ == "__main__":
    main()
