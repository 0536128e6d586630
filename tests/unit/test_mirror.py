"""tests/unit mirrors src, tests/cli the commands: a module's tests are where one looks for them.

`a/b.py` is tested by `a/test_b.py`, or by several files `a/test_b_ASPECT.py`.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "unitail"
ELSEWHERE = {
    "__main__.py": "cli/test_pipes.py",  # starts `python -m unitail`
    "cli/commands/options.py": "cli/test_main.py",  # what commands share
    "encoders/encoder.py": "unit/encoders/test_encoding.py",  # the base class of all
    "engines/answering.py": "unit/engines/test_job.py",  # what a job lets workers do
    "engines/bank.py": "unit/engines/test_job.py",
    "engines/encoding.py": "unit/engines/test_job.py",
    "engines/engine.py": "unit/engines/test_local.py",  # the base class of all
    "engines/chunk_items.py": "unit/engines/test_rows.py",
    "engines/chunk_results.py": "unit/engines/test_job.py",
    "estimator/saving/folder.py": "unit/estimator/test_classifier_saving.py",
    "estimator/saving/content.py": "unit/estimator/test_classifier_saving.py",
    "inputs/folders.py": "unit/inputs/test_read_folders.py",
    "inputs/table_rows.py": "unit/inputs/test_read_tables.py",
    "progress.py": "cli/test_console.py",  # one type
    "service/admission.py": "unit/service/test_app.py",
    "service/questions.py": "unit/service/test_batching.py",
    "service/api_page.py": "unit/service/test_routes.py",
    "service/decoder_process.py": "unit/service/test_decoder_pool.py",  # runs in their processes
    "service/limits.py": "unit/service/test_app.py",
    "service/messages.py": "unit/service/test_routes.py",
    "service/metrics.py": "unit/service/test_routes.py",
    "studio/action.py": "unit/studio/test_store.py",
    "studio/history.py": "unit/studio/test_store_conflicts.py",
    "studio/routes.py": "unit/studio/test_app.py",
    "studio/stored_rows.py": "unit/studio/test_store.py",
    "studio/page_data.py": "unit/studio/test_studio.py",
    "studio/server.py": "cli/test_studio.py",
    "studio/watch.py": "unit/studio/test_studio.py",
    "reproduction/markdown.py": "unit/reproduction/test_page.py",  # the same report
    "reproduction/write.py": "cli/test_reproduce.py",
}
"""Modules that are tested through others, and where."""
ACROSS = {
    "unit/test_mirror.py",
    "unit/test_strangers.py",  # every format that is opened
    "unit/test_public_names.py",  # the package itself
    "unit/baselines/test_sequence_models.py",  # what three of them have in common
    "unit/estimator/test_class_shares.py",  # the classifier's, through `fit` and `predict`
    "unit/estimator/test_docstrings.py",
    "unit/estimator/test_dtypes.py",
    "unit/estimator/test_scikit_learn.py",
    "unit/training/test_resuming.py",  # trainer, state and run folder together
}
"""Tests of several modules together."""


def modules() -> list[str]:
    paths = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    return sorted(path.as_posix() for path in paths if path.name != "__init__.py")


def own_tests(module: str) -> list[str]:
    """Find the tests of a module in the place that mirrors its own."""
    path = Path(module)
    folder = TESTS / "cli" if path.parts[0] == "cli" else TESTS / "unit" / path.parent
    paths = [*folder.glob(f"test_{path.stem}.py"), *folder.glob(f"test_{path.stem}_*.py")]
    return [test.relative_to(TESTS).as_posix() for test in paths]


@pytest.mark.parametrize("module", modules())
def test_a_module_has_tests_of_its_own_or_is_said_to_be_tested_elsewhere(module: str) -> None:
    if module in ELSEWHERE:
        assert not own_tests(module), "it has tests now: take it off the list"
        assert (TESTS / ELSEWHERE[module]).exists()
    else:
        assert own_tests(module)


def test_no_test_is_left_of_a_module_that_is_gone() -> None:
    mirrored = {test for module in modules() for test in own_tests(module)}
    folders = (TESTS / "unit", TESTS / "cli")
    tests = {
        test.relative_to(TESTS).as_posix()
        for folder in folders
        for test in folder.rglob("test_*.py")
    }
    assert tests - mirrored == ACROSS


def test_the_modules_tested_elsewhere_still_exist() -> None:
    assert set(ELSEWHERE) <= set(modules())
