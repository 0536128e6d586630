"""Ship finished runs of recipes/tail_5w.toml and tail_50w.toml as "tail" and "tail-50w".

    python tools/ship_tail.py tail --run runs/tail_5w --recipe recipes/tail_5w.toml --banks BANKS

Makes the same checks as tools/ship_default.py. Then rounds the weights to half precision, writes
them with their hashes to src/unitail/weights/NAME, writes the model card from the run's recipe and
log, the manifests of the banks and results/tail_banks, and copies log and recipe to results/RECIPE.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from ship_default import (
    bank_row,
    benchmark_section,
    checked_model,
    checked_run,
    keep_log,
    seal,
    training_banks,
    validation_row,
)

from unitail.banks.bank import FeatureBank
from unitail.errors import UserError
from unitail.files import fresh_folder
from unitail.learners.checkpoint import WEIGHTS_FILE, write_model
from unitail.learners.pretrained import SHIPPED_DRAWS, shipped_folder
from unitail.nn.episode_model import AnyModel
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.run_log import Entry

MAX_BYTES = 16 * 2**20
"""Largest size of the weights in half precision."""
READING = """\
The columns are 37 feature tables of 19 data sets; ten tables have two to four classes and count as
"5-way". Intervals are over episodes. Learning rate, size, normalisation and augmentation were
chosen by held-out classes of training sets, tiny_imagenet's among them: the first column is no
test. The other columns were not used for any choice, but results of earlier models on them
suggested what to try: length normalisation and augmentation."""
LIMITS = """\
- With joint answers, for which it was mostly trained, an answer depends on the other rows of the
  call. Training had {queries} queries of every class: ask for whole batches in which all classes
  occur about equally often. **With unequal shares joint answers are worse than isolated ones**, by
  2 to 16 points on four sets with Dirichlet(1) shares (docs/experiments.md). For these, single rows
  and streams use `visibility="isolated"` (every fourth step of training), or the default model.
- Training had at most {ways} classes and {shots} examples of each. The dictionary has {slots}
  slots; a task of more classes is refused.
- Answers are random: another `random_state` gives other draws. In trials one draw instead of
  {draws} cost 2 to 5 points.
- Trained on image features of two encoders, 512 and 1280 wide. Other encoders, text and audio were
  never seen; wider features are reduced to 1280 by a random orthonormal projection.
- It cannot fix an encoder that does not tell the classes apart.
- This is the paper's architecture at a fortieth of its size, on other features than the paper's and
  after minutes of training: no measurement of the published model.
"""


def card(
    name: str,
    model: AnyModel,
    recipe: Recipe,
    recipe_path: Path,
    entries: list[Entry],
    banks: Mapping[str, FeatureBank],
) -> str:
    """Return the text of the model card."""
    weights = sum(weight.numel() for weight in model.parameters())
    minutes = sum(entry.get("seconds", 0) for entry in entries) / 60
    return "\n".join([
        f"# {name}: the paper's TAIL, small",
        "",
        f"TAIL with {weights:,} weights in half precision, {recipe.training.steps:,} steps of"
        f" training ({minutes:.0f} minutes of an H200 that two such runs shared). Made by `unitail"
        f" train recipes/{recipe_path.name} --banks BANKS` and `python tools/ship_tail.py`; the log"
        f" is in results/{recipe_path.stem}.",
        "",
        f'Use: `TailClassifier(model="{name}")` or `unitail predict --model {name}`: joint answers,'
        f" the mean of {SHIPPED_DRAWS[name]} draws.",
        "",
        "## Trained on",
        "",
        "| features | classes | rows | source | licence as stated |",
        "|---|---|---|---|---|",
        *(bank_row(each, bank) for each, bank in sorted(banks.items())),
        "",
        "A fifth of tiny_imagenet's classes was kept out for validation; a fifth of the"
        " batches was augmented (`tasks/augmentation.py`). Licences are those that the sources"
        " state; several sets are for research.",
        "",
        "## Validation, one draw",
        "",
        "| episodes | accuracy, % | raw prototypes, % |",
        "|---|---|---|",
        *(validation_row(each, row) for each, row in entries[-1]["validation"].items()),
        "",
        f"{recipe.validation.ways}-way, tasks of the held-out classes in both encoders' features.",
    ])  # fmt: skip


def limits(name: str, recipe: Recipe) -> str:
    """Return the limits of the model for its card."""
    episodes = recipe.episodes
    return LIMITS.format(
        ways=episodes.ways[1],
        shots=episodes.shots[1],
        queries=episodes.queries,
        slots=recipe.model.max_ways,
        draws=SHIPPED_DRAWS[name],
    )


def ship(model: AnyModel, recipe: Recipe, run: Path, folder: Path, text: str) -> None:
    """Write and seal the model; it replaces the old one only if it passes a check."""
    weights = {key: value.to(torch.float16) for key, value in model.state_dict().items()}
    with fresh_folder(folder) as fresh:
        write_model(recipe.model, weights, fresh, recipe.training.visibilities)
        size = (fresh / WEIGHTS_FILE).stat().st_size
        if size > MAX_BYTES:
            raise UserError("the model is too large", got=size, allowed=f"{MAX_BYTES} bytes")
        seal(fresh, run, text)


def main() -> None:
    """Check a run and ship its model in half precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[name for name in SHIPPED_DRAWS if name.startswith("tail")])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    try:
        recipe = read_recipe(args.recipe)
        banks = training_banks(recipe, args.banks)
        entries = checked_run(args.run, recipe, banks)
        model = checked_model(args.run / "model", recipe)
        text = card(args.name, model, recipe, args.recipe, entries, banks)
        text += benchmark_section(args.results / "tail_banks" / "summary.csv", READING)
        text += f"\n\n## Limits\n\n{limits(args.name, recipe)}"
        ship(model, recipe, args.run, shipped_folder(args.name), text)
    except UserError as error:
        sys.exit(f"not shipped: {error}")
    keep_log(args.run, args.results / args.recipe.stem)
    print(f"{shipped_folder(args.name)} is the model {args.name!r} now.")


if __name__ == "__main__":
    main()
