"""From a user's files to answers: accuracy on folders and tables of files, beside simple methods.

    python bench/raw_files.py RAW --out results/raw_files.md

RAW holds sets of original files: a folder with a subfolder for each class, or a table with a column
of labels. Each is read, encoded with its offline default encoder and asked, all classes at once, in
random splits into 5 examples a class and the rest. All learners see the same vectors and splits.
"""

import argparse
import shlex
import sys
from pathlib import Path

from unitail.baselines.linear_probe import LinearProbe, ProbeVariant
from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.encoders.cache import default_cache
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.score import score_learners
from unitail.framework.learner import Inference
from unitail.inputs.read import read_labelled
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import load_default
from unitail.nn.visibility import Visibility
from unitail.tasks.arrays import ArrayTask
from unitail.workflows.learning_curve.data import encode_own

SETS = ("images/clothing17", "images/sign_digits", "text/clinc20.csv", "audio/spoken_digits")
MOST_QUERIES = 15


def learners() -> dict[str, Inference]:
    """Return what is compared."""
    model = load_default()
    return {
        "unitail": InContextLearner(model),
        "unitail, joint": InContextLearner(model, visibility=Visibility.JOINT),
        "logistic regression": LinearProbe(ProbeVariant.TUNED),
        "prototypes": ProtoHead(PrototypeVariant.CENTRED),
    }


def main() -> None:
    """Measure every set and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("raw", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--splits", type=int, default=200)
    options = parser.parse_args()
    compared = learners()
    rows = [
        f"| set | classes | chance | {' | '.join(compared)} |",
        "|---|" + "---:|" * (2 + len(compared)),
    ]
    for name in SETS:
        own = encode_own(read_labelled(options.raw / name), cache=default_cache())
        vectors = own.rows
        task = ArrayTask(name=name, features=vectors.features, class_indices=vectors.class_indices)
        smallest = int(task.class_sizes.min())
        protocol = EvaluationProtocol(
            ways=task.ways,
            shots=options.shots,
            queries=min(MOST_QUERIES, smallest - options.shots),
            episodes=options.splits,
        )
        found = score_learners(compared, task, protocol)
        cells = [
            f"{100 * one.accuracy.mean:.1f} ± {100 * one.accuracy.half_width:.1f}"
            for one in found.values()
        ]
        rows.append(f"| {name} ({own.encoder}) | {task.ways} | {100 / task.ways:.0f} | ")
        rows[-1] += " | ".join(cells) + " |"
        print(rows[-1], flush=True)
    command = shlex.join(["python", *sys.argv]).replace(str(options.raw), "RAW")
    text = (
        f"# From files to answers\n\nAccuracy in % with {options.shots} examples a class and the"
        f" offline encoders; mean over {options.splits} random splits of the set, with the 95 %"
        " interval of that mean (the rows are the same few files in every split, so it says"
        " nothing about other files). The default model was meta-trained on other images of the"
        " first two sets, not on the last two. Written by\n\n"
        f"    {command}\n\n" + "\n".join(rows) + "\n"
    )
    options.out.write_text(text)


if __name__ == "__main__":
    main()
