"""All families of bad input."""

from campaign.families.files import (
    images,
    names,
    sounds,
    tables_csv,
    tables_jsonl,
    tables_of_texts,
    tables_parquet,
    tables_xlsx,
)
from campaign.families.folders import (
    banks,
    bombs,
    caches,
    classifiers,
    coded_banks,
    estimator,
    models,
    options,
    recipes,
)

FAMILIES = [
    images,
    sounds,
    tables_csv,
    tables_of_texts,
    tables_jsonl,
    tables_parquet,
    tables_xlsx,
    names,
    banks,
    coded_banks,
    models,
    classifiers,
    recipes,
    estimator,
    options,
    caches,
    bombs,
]
