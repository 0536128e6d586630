"""`unitail predict`: labelled examples and files in, answers out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unitail.answer_defaults import COVERAGE, TOP
from unitail.cli.commands import options
from unitail.errors import UserError


def predict(
    examples: Annotated[
        Path | None,
        typer.Argument(
            metavar="EXAMPLES",
            help="A folder with a subfolder for each class, or a table with labels; not with a "
            "--model that `unitail fit` made.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            help="What to answer: folders, files, tables, or - for lines of text from standard "
            "input; folders and tables may be addresses (s3://, gs://, ...). Without any, what has "
            "no label among the examples: rows, or files beside the class folders.",
        ),
    ] = None,
    also: options.Also = None,
    pool: options.Pool = None,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A folder that `unitail fit` made, in place of examples; or what learns from "
            "them: default, tail, tail-50w, the folder of a model.",
        ),
    ] = "default",
    joint: options.Joint = False,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced",
            help="With --joint: equally many of the files are of each class. Only if you know so: "
            "where it is untrue, it ruins the answers.",
        ),
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Classes named for each answer.")] = TOP,
    coverage: Annotated[
        float,
        typer.Option(
            help="How often the set of possible classes should hold the true one, 0 to 1."
        ),
    ] = COVERAGE,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Name the examples, and of tables the columns, that speak for each answer, and "
            "how much: of the 1,000 least sure.",
        ),
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write all answers to this .csv, .jsonl, .parquet, .xlsx or .json file; "
            "- prints JSON lines, and messages go to the error stream. With several workers, a "
            "folder or address for Parquet files.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to look at to this .html file.")
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Sort the files into this folder, by class; doubtful and novel ones apart. "
            "Nothing is overwritten.",
        ),
    ] = None,
    sort_by: Annotated[
        str, typer.Option(metavar="HOW", help="copy, link or move the files.")
    ] = "copy",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what --sort-into would do.")
    ] = False,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = options.CHUNK_ROWS,
) -> None:
    """Say which class each file or row belongs to, from a few labelled examples.

    Such as `unitail predict labelled/ unsorted/ --report report.html`, where labelled/ has a
    subfolder for each class, or `unitail predict table.csv --out answers.csv`, which answers the
    rows without a label.

    Tables are CSV, TSV, Excel, Parquet, Feather or JSON, with a column of labels, and columns of
    texts, of paths, of numbers and categories, or several of these. The answers are your table with
    columns added; all rows stay, in their order. What has a label is scored.

    Millions of rows are shared out with `--workers 4`, or `--engine ray` on a cluster, and streamed
    into a folder of Parquet files; broken off, the same command goes on.

    Exit codes: 0, all was answered; 1, some files could not be read, and the
    rest was answered; 2, the call is wrong and nothing was answered.
    """
    if examples is None:
        raise _without_anything(model)
    from unitail.cli.console import column_kinds
    from unitail.engines.choice import EngineChoice
    from unitail.inputs.items import ReadOptions

    chosen = EngineChoice(engine, workers, address, gpus_per_worker, chunk_rows)
    asked: dict[str, Any] = {
        "also": also or [],
        "options": ReadOptions(label_column, content_column, modality, column_kinds(column or [])),
        "use_cache": not no_cache,
        "encoder": encoder,
        "model": model,
        "joint": joint,
        "balanced": balanced,
        "top": top,
        "coverage": coverage,
        "device": device,
    }
    if chosen.streams([*(files or []), *(pool or [])]):
        from unitail.cli.predict_together import run_together

        unable = {"--report": report, "--sort-into": sort_into, "--dry-run": dry_run, "--why": why}
        run_together(
            examples, files or [], engine=chosen, out=out, pool=pool or [], unable=unable, **asked
        )
        return
    from unitail.cli.predict import Outputs, Sorting, run

    run(
        examples,
        [Path(file) for file in files or []],
        pool=[Path(each) for each in pool or []],
        wanted=Outputs(
            None if out is None else Path(out), report, Sorting(sort_into, sort_by, dry_run=dry_run)
        ),
        why=why,
        **asked,
    )


def _without_anything(model: str) -> UserError:
    """Say what is missing: examples, unless a model has learned from its own."""
    from unitail.learners.pretrained import SHIPPED_DRAWS

    if model in SHIPPED_DRAWS:
        return UserError(
            "there is nothing to learn from",
            got="neither EXAMPLES nor FILES",
            allowed="labelled EXAMPLES, and what to answer: unitail predict EXAMPLES FILES",
            remedy="Name a folder with a subfolder for each class, or a table with labels.",
        )
    return UserError(
        "there is nothing to answer",
        got=f"--model {model} without FILES",
        allowed="files, folders or tables: unitail predict --model MODEL FILES",
        remedy="Name what to answer.",
    )
