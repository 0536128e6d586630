"""`unitail predict`: answer files and rows from labelled examples."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.answer_defaults import CHUNK_ROWS, COVERAGE, TOP
from unitail.cli.commands import options
from unitail.errors import UserError

LOCAL = "local"
"""The engine that is used unless another is named."""


def predict(
    examples: Annotated[
        Path | None,
        typer.Argument(
            metavar="EXAMPLES",
            help="Labelled examples: a folder with one subfolder per class, or a table with a "
            "column of labels. Leave them out with a --model saved by `unitail fit`.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            help="What to answer: folders, files, tables, or - to read lines of text from standard "
            "input. Folders and tables may be remote (s3://, gs://, ...). Default: the unlabelled "
            "part of EXAMPLES: rows without a label, or files outside the class folders.",
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
            help="Model that learns from the examples: default, tail, tail-50w, or the folder of a "
            "trained model. Or a classifier saved by `unitail fit`, which replaces EXAMPLES.",
        ),
    ] = "default",
    joint: options.Joint = False,
    balanced: options.Balanced = False,
    top: Annotated[
        int, typer.Option(min=1, help="Number of most probable classes to list for each item.")
    ] = TOP,
    coverage: Annotated[
        float,
        typer.Option(
            help="How often the prediction set should contain the true class: above 0 and below 1."
        ),
    ] = COVERAGE,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Explain the 1,000 least certain answers: which examples (and, for tables, which "
            "columns) support each answer, and how strongly.",
        ),
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write all answers to this .csv, .jsonl, .parquet, .xlsx or .json file. With -, "
            "print JSON lines and send messages to standard error. With several workers: a local "
            "or remote folder for Parquet files.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report that shows the items to this .html file.")
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Sort the files into this folder, one subfolder per class, with separate ones "
            "for doubtful and novel files. Nothing is overwritten.",
        ),
    ] = None,
    sort_by: Annotated[
        str, typer.Option(metavar="HOW", help="How --sort-into sorts files: copy, link or move.")
    ] = "copy",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what --sort-into would do, and change nothing.")
    ] = False,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
    engine: options.Engine = LOCAL,
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = CHUNK_ROWS,
) -> None:
    """Predict the class of each file or row from a few labelled examples.

    For example, `unitail predict labelled/ unsorted/ --report report.html`,
    where labelled/ has one subfolder per class, or `unitail predict table.csv
    --out answers.csv`, which answers the rows without a label.

    Tables may be CSV, TSV, Excel, Parquet, Feather or JSON. They have a column
    of labels and any columns of texts, paths, numbers and categories. The
    output is your table with columns added; it keeps all rows in their order.
    Items in FILES that have a label are used to score the answers.

    For millions of rows, use `--workers 4`, or `--engine ray` on a cluster.
    Rows are then streamed into a folder of Parquet files; no answers are
    printed, and items with a label are not scored. To resume an interrupted
    run, repeat the command.

    Exit codes: 0, everything was answered; 1, some files could not be read and
    the others were answered; 2, the call is wrong and nothing was answered.
    """
    if examples is None:
        raise _no_examples(model)
    from unitail.cli.console import read_options
    from unitail.cli.predict import Outputs, PredictCall, run
    from unitail.cli.sorting import Sorting
    from unitail.files import is_address
    from unitail.workflows.fit import ClassifierOptions
    from unitail.workflows.html_report.page import MAX_CARDS
    from unitail.workflows.predict import PredictOptions

    call = PredictCall(
        examples=examples,
        files=files or [],
        also=also or [],
        pool=pool or [],
        reading=read_options(label_column, content_column, modality, column),
        classifier=ClassifierOptions(
            encoder=encoder, model=model, joint=joint, balanced=balanced, device=device
        ),
        wanted=PredictOptions(
            coverage=coverage, top=top, why=why, cards=MAX_CARDS if report else 0
        ),
        use_cache=not no_cache,
    )
    is_remote = any(map(is_address, (*call.files, *call.pool)))
    if engine != LOCAL or workers or address or gpus_per_worker or is_remote:
        from unitail.cli.predict_together import run_together
        from unitail.engines.choice import EngineChoice

        run_together(
            call,
            EngineChoice(engine, workers, address, gpus_per_worker, chunk_rows),
            out,
            {"--report": report, "--sort-into": sort_into, "--dry-run": dry_run},
        )
        return
    sorting = Sorting.of(sort_into, sort_by, dry_run=dry_run)
    run(call, Outputs(None if out is None else Path(out), report, sorting))


def _no_examples(model: str) -> UserError:
    """Return the error for a call without arguments: examples are missing, or files to answer."""
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
