"""Datasets: what agents once answered and should have answered, judged without running them."""

from workbench.store.datasets.reading import reach_dataset, read_dataset
from workbench.store.datasets.recorded import Recorded, RecordedCase, holds_rows, read_recorded, rows_as_recorded
from workbench.store.datasets.remote import is_address, shown_address
from workbench.store.datasets.rows import Dataset, Row
from workbench.store.datasets.values import dataset_of_columns, dataset_of_frame, dataset_of_rows

__all__ = [
    "Dataset",
    "Recorded",
    "RecordedCase",
    "Row",
    "dataset_of_columns",
    "dataset_of_frame",
    "dataset_of_rows",
    "holds_rows",
    "is_address",
    "reach_dataset",
    "read_dataset",
    "read_recorded",
    "rows_as_recorded",
    "shown_address",
]
