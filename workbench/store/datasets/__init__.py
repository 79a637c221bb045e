"""Datasets: what agents once answered and should have answered, judged without running them."""

from workbench.store.datasets.reading import read_dataset
from workbench.store.datasets.recorded import Recorded, RecordedCase, holds_rows, read_recorded, rows_as_recorded
from workbench.store.datasets.rows import Dataset, Row

__all__ = [
    "Dataset",
    "Recorded",
    "RecordedCase",
    "Row",
    "holds_rows",
    "read_dataset",
    "read_recorded",
    "rows_as_recorded",
]
