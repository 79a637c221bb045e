"""Eval-set files and the other JSON files of a project, as documents: read with tolerance, edited without loss.

`EvalSetDocument` is an eval set; `read_json` and `load_config` read the files beside it; `validate` says what is wrong
with any of them; `RecoveryFolder` and `TypedTexts` keep through a crash what is not saved.
"""

from __future__ import annotations

from workbench.store.documents.cases import InvalidData, validated
from workbench.store.documents.config_document import ConfigDocument
from workbench.store.documents.creating import (
    AddedCase,
    AdkPersonas,
    Scenario,
    add_scenarios,
    as_data,
    content_of_new_set,
    document_for_scenarios,
    insert_scenarios,
    new_eval_set,
    read_scenarios,
    read_session_input,
    refuse_older_format,
)
from workbench.store.documents.differing import CaseDifference, differing_cases
from workbench.store.documents.entries import CaseEntry
from workbench.store.documents.environment_file import load_environment
from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.documents.frame import DocumentFormat
from workbench.store.documents.generation_file import load_generation
from workbench.store.documents.migrating import migrate, with_initial_session
from workbench.store.documents.places import Place, format_place
from workbench.store.documents.problems import Problem, first_of_each_kind, format_problems
from workbench.store.documents.reader import Loaded, config_in, load_config, read_json
from workbench.store.documents.recovery import Recovery, RecoveryFolder
from workbench.store.documents.typed_text import TypedTexts
from workbench.store.documents.validating import files_below, fix, validate
from workbench.store.documents.validating_others import is_config, problems_of_config

__all__ = [
    "AddedCase",
    "AdkPersonas",
    "CaseDifference",
    "CaseEntry",
    "ConfigDocument",
    "DocumentFormat",
    "EvalSetDocument",
    "InvalidData",
    "Loaded",
    "Place",
    "Problem",
    "Recovery",
    "RecoveryFolder",
    "Scenario",
    "TypedTexts",
    "add_scenarios",
    "as_data",
    "config_in",
    "content_of_new_set",
    "differing_cases",
    "document_for_scenarios",
    "files_below",
    "first_of_each_kind",
    "fix",
    "format_place",
    "format_problems",
    "insert_scenarios",
    "is_config",
    "load_config",
    "load_environment",
    "load_generation",
    "migrate",
    "new_eval_set",
    "problems_of_config",
    "read_json",
    "read_scenarios",
    "read_session_input",
    "refuse_older_format",
    "validate",
    "validated",
    "with_initial_session",
]
