"""Eval-set files and the other JSON files of a project, as documents: read with tolerance, edited without loss."""

from __future__ import annotations

from workbench.store.documents.entries import CaseEntry
from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.documents.frame import DocumentFormat
from workbench.store.documents.problems import Problem
from workbench.store.documents.reader import Loaded, load_config, read_json

__all__ = ["CaseEntry", "DocumentFormat", "EvalSetDocument", "Loaded", "Problem", "load_config", "read_json"]
