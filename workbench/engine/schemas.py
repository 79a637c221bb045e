"""JSON Schemas of our files, for editors: eval sets, configurations, `workbench.toml` and the report of a run.

They are made from the types that read and write these files, so that an editor warns about an unknown key where
`workbench run` or `workbench eval-set validate` does, and nowhere else. All are of draft 7, which editors know best.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from workbench.llm.gemini import KEYS as MODEL_KEYS
from workbench.llm.gemini import THINKING_KEYS
from workbench.metrics.judges.judge_calls import KNOWN_OPTIONS as JUDGE_OPTIONS
from workbench.metrics.judges.judge_calls import OPTION as JUDGE_MODEL_OPTIONS
from workbench.metrics.metric_types import THRESHOLD, TOLERATED, MetricInfo
from workbench.metrics.registry import known_metrics
from workbench.model.criteria import KEYS as JUDGE_METRIC_KEYS
from workbench.model.criteria import JudgeMetric
from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.results import (
    CaseStatus,
    Failure,
    InvocationScore,
    MetricStatus,
    ModelCalls,
    SimulatedConversation,
    TokenUsage,
)
from workbench.model.run_events import RunSummary
from workbench.model.target import AgentKind
from workbench.model.turn_diff import DifferenceKind
from workbench.report.report_formats import SCHEMA_VERSION
from workbench.simulation.users import KEYS as USER_OPTIONS
from workbench.store.datasets.dataset_rows import KNOWN as KNOWN_COLUMNS
from workbench.store.json.json_path import ADK_TYPES, AdkType
from workbench.store.settings import Settings

Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_TEXT: Schema = {"type": "string"}
_OBJECT: Schema = {"type": "object"}
_THRESHOLD = ["number", "boolean", "string", "null"]


def evalset_schema() -> Schema:
    """Return the schema of `*.evalset.json` and `*.test.json`, older formats included."""
    own = _definitions([EvalCase], mode="validation")
    definitions = own | {
        name: _adk_object(adk, own.get(name, {}), own) for name, adk in _adk_types_below("EvalSet").items()
    }
    eval_set = definitions["EvalSet"]
    eval_set["description"] = "An eval set: a list of eval cases, each of which is one session."
    eval_set["properties"] |= _both({"eval_cases": _make_list(_ref("EvalCase"))})
    definitions["EvalCase"]["oneOf"] = [_is_given("conversation"), _is_given("conversation_scenario")]
    definitions["Invocation"]["properties"] |= _both(
        {
            "intermediate_data": {
                "description": "What happened between the user's message and the final response.",
                "if": {"anyOf": [{"required": ["invocation_events"]}, {"required": ["invocationEvents"]}]},
                "then": _ref("InvocationEvents"),
                "else": {"anyOf": [_ref("IntermediateData"), _NULL]},
            }
        }
    )
    call = definitions["FunctionCall"]
    call["type"] = ["object", "string"]
    call["properties"] |= {"tool_name": call["properties"]["name"], "tool_input": call["properties"]["args"]}
    definitions["IntermediateResponse"] |= {  # the format writes it as a pair
        "type": ["array", "object"],
        "items": [_TEXT, _make_list(_ref("Part"))],
        "minItems": 2,
        "maxItems": 2,
    }
    definitions["LegacyTurn"] = {
        "description": "A turn of the old format, which `workbench eval-set migrate` rewrites.",
        "type": "object",
        "required": ["query"],
    }
    definitions["LegacyEval"] = {
        "description": "An eval of the old format, which `workbench eval-set migrate` rewrites.",
        "type": "object",
        "required": ["name", "data"],
        "properties": {"name": _TEXT, "data": {"type": "array", "items": _ref("LegacyTurn")}},
    }
    return _document(
        "Eval set of the Agent Development Kit",
        {
            "if": {"type": "array"},
            "then": {"items": {"anyOf": [_ref("LegacyEval"), _ref("LegacyTurn")]}},
            "else": _ref("EvalSet"),
        },
        definitions,
    )


def config_schema(keys: Mapping[str, str]) -> Schema:
    """Return the schema of `workbench.toml`. `keys` are the actions of the screen with their descriptions."""
    definitions = _definitions([Settings], mode="validation")
    settings = definitions.pop("Settings")
    settings["properties"]["keys"] |= {
        "properties": {action: {**_TEXT, "description": text} for action, text in keys.items()},
        "additionalProperties": False,
    }
    target = definitions["TargetSettings"]["properties"]
    target["kind"] |= {"enum": [kind.value for kind in AgentKind]}
    target["target"] = {
        "description": target["target"]["description"],
        "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "description": "A program with its arguments."}],
    }
    target["columns"]["propertyNames"] = {"enum": list(KNOWN_COLUMNS)}
    definitions["HttpSettings"]["properties"]["body"]["type"] = ["string", "object"]
    return _document("Settings of workbench", settings, definitions)


def criteria_schema() -> Schema:
    """Return the schema of `test_config.json` and other files of criteria."""
    adk_types = _adk_types_below("EvalConfig", "CustomMetricConfig")
    definitions = {name: _adk_object(adk, {}, {}) for name, adk in adk_types.items()}
    thinking = _options(_any_value(THINKING_KEYS))
    definitions["ModelConfiguration"] = _options(_any_value(MODEL_KEYS) | {"thinking_config": thinking})
    model = _or_null(_ref("ModelConfiguration"))
    definitions["JudgeModelOptions"] = _options(_any_value(JUDGE_OPTIONS) | {"judge_model_config": model})
    definitions["UserSimulatorConfig"] = _options(_any_value(USER_OPTIONS) | {"model_configuration": model})
    definitions["JudgeMetric"] = _judge_metric()
    options = _options(_any_value(TOLERATED) | {JUDGE_MODEL_OPTIONS: _or_null(_ref("JudgeModelOptions"))})
    definitions["JudgedCriterion"] = _describe_criterion(
        options, description="A criterion of a metric of `judge_metrics`."
    )
    definitions["CustomCriterion"] = _describe_criterion({}, description="A criterion of a metric of `custom_metrics`.")
    config = definitions.pop("EvalConfig")
    config["properties"] |= _both(
        {
            "custom_metrics": {
                "description": "Metrics of your own: functions that return a score.",
                "type": ["object", "null"],
                "additionalProperties": {"anyOf": [_TEXT, _ref("CustomMetricConfig")]},
            },
            "judge_metrics": {
                "description": "Metrics of your own by which a model rates responses. ADK does not read them.",
                "type": ["object", "null"],
                "additionalProperties": _ref("JudgeMetric"),
            },
            "user_simulator_config": {
                "description": "The model that plays the users of conversation scenarios.",
                "anyOf": [_ref("UserSimulatorConfig"), _NULL],
            },
        }
    )
    known = {name: _criterion(info) for name, info in known_metrics().items()}
    config["properties"]["criteria"] = {
        "description": "The metrics that judge a case, each with its threshold.",
        "type": ["object", "null"],
        "properties": known,
    }
    # Which other metrics there are depends on the file, which a schema cannot look up.
    of_judge = _if_given("judge_metrics", _others_in_criteria(additionalProperties=_ref("JudgedCriterion")))
    of_judge["else"] = _others_in_criteria(propertyNames={"enum": sorted(known)})
    config |= _if_given("custom_metrics", _others_in_criteria(additionalProperties=_ref("CustomCriterion")))
    config["else"] = of_judge
    return _document("Criteria of an eval set", config, definitions)


def run_schema() -> Schema:
    """Return the schema of the document that `workbench run --format json` writes. New keys may appear in it."""
    definitions = _definitions(
        [RunSummary, Failure, InvocationScore, ModelCalls, Quarantine, SimulatedConversation, TokenUsage],
        mode="serialization",
    )
    for definition in definitions.values():
        definition.pop("additionalProperties", None)
    # An agreement is computed from the judgement where a model judged.
    definitions["InvocationScore"]["properties"]["agreement"] = _or_null({"type": "number"})
    definitions["InvocationScore"]["required"] = ["score", "reason", "hint"]
    number, whole, flag = {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
    definitions["Criteria"] = _record(
        "The criteria of an eval set.",
        source={**_TEXT, "description": 'The file of the criteria, or "default".'},
        criteria=_make_list(_record("A criterion.", name=_TEXT, threshold=_or_null(number), options=_OBJECT)),
    )
    definitions["Call"] = _record("A tool call.", name=_or_null(_TEXT), args=_or_null(_OBJECT))
    definitions["Turn"] = _record(
        "The actions of the agent in a turn.",
        user=_TEXT,
        response=_or_null(_TEXT),
        trajectory={**_or_null(_make_list(_ref("Call"))), "description": "Its tool calls; null if they are unknown."},
        duration_seconds=_or_null(number),
        inference_calls=_or_null(whole),
        usage=_or_null(_ref("TokenUsage")),
    )
    definitions["Difference"] = _record(
        "A difference between the expectation and the actions of the agent. Positions count from 0.",
        turn={**_or_null(whole), "description": "The turn, counted from 0; null for the final state."},
        kind={"enum": [kind.value for kind in DifferenceKind]},
        tool=_or_null(_TEXT),
        expected_call=_or_null(whole),
        actual_call=_or_null(whole),
        path={"type": "array"},
        expected={},
        actual={},
        cost_points_in={**_make_list(_TEXT), "description": "The failed criteria that lost points by it."},
    )
    definitions["Metric"] = _record(
        "One metric on one case.",
        name=_TEXT,
        score=_or_null(number),
        threshold=_or_null(number),
        status={"enum": [status.value for status in MetricStatus]},
        reason=_or_null(_TEXT),
        hint=_or_null(_TEXT),
        scored=whole,
        total=whole,
        unsure={**flag, "description": "True if the samples of a judge disagree."},
        judged_by=_or_null(_record("Samples of a judge.", read=whole, asked=whole, turn=whole)),
        per_invocation=_make_list(_ref("InvocationScore")),
        details=_OBJECT,
    )
    definitions["Case"] = _record(
        "One case of one repeat.",
        target=_TEXT,
        eval_set=_TEXT,
        eval_set_id=_TEXT,
        eval_id=_TEXT,
        occurrence=whole,
        repeat=whole,
        status={"enum": [status.value for status in CaseStatus]},
        quarantine=_or_null(_ref("Quarantine")),
        unsure=flag,
        error=_or_null(_ref("Failure")),
        duration_seconds=number,
        agent_seconds=number,
        node=_or_null(_TEXT),
        metrics=_make_list(_ref("Metric")),
        simulation=_or_null(_ref("SimulatedConversation")),
        model_calls=_or_null(_ref("ModelCalls")),
        turns=_make_list(_ref("Turn")),
        differences=_make_list(_ref("Difference")),
        causes=_make_list(_record("What happened beside the verdict.", turn=whole, text=_TEXT)),
    )
    run = _record(
        "The results of a run.",
        schema_version={"const": SCHEMA_VERSION},
        run_id=_TEXT,
        started_at=_or_null({**_TEXT, "format": "date-time"}),
        duration_seconds=number,
        interrupted=flag,
        command=_TEXT,
        summary=_ref("RunSummary"),
        criteria={**_OBJECT, "additionalProperties": _ref("Criteria"), "description": "By the path of the eval set."},
        options=_OBJECT,
        versions=_OBJECT,
        cases=_make_list(_ref("Case")),
    )
    return _document("Report of a run", run, definitions)


def _document(title: str, schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        **schema,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _definitions(models: Iterable[type[BaseModel]], *, mode: Any) -> dict[str, Schema]:
    """Return the schemas of models and of those below them, by name, described by their docstrings."""
    _, made = models_json_schema([(model, mode) for model in models], by_alias=False)
    definitions: dict[str, Schema] = made["$defs"]
    described = {model.__name__: model for model in _models_below(models)}
    for name, definition in definitions.items():
        _tidy(definition)
        for key, text in describe_fields(described[name]).items() if name in described else ():
            definition["properties"][key]["description"] = text
    return definitions


def _models_below(models: Iterable[type[BaseModel]]) -> set[type[BaseModel]]:
    """Return models and all models that their fields name."""
    found: set[type[BaseModel]] = set()

    def visit(value: Any) -> None:
        if inspect.isclass(value) and issubclass(value, BaseModel) and value not in found:
            found.add(value)
            for field in value.model_fields.values():
                visit(field.annotation)
        for part in getattr(value, "__args__", ()):
            visit(part)

    for model in models:
        visit(model)
    return found


def describe_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return what the docstrings below the fields of a model say, by field."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                texts[name] = " ".join(words.split())
    return texts


def _tidy(schema: Schema) -> None:
    """Remove the titles that pydantic makes of names, and defaults that an editor would insert as `null`."""
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
        if field.get("default", ...) is None:
            del field["default"]


def _adk_types_below(*names: str) -> dict[str, AdkType]:
    found: dict[str, AdkType] = {}

    def visit(name: str) -> None:
        if name in ADK_TYPES and name not in found:
            found[name] = ADK_TYPES[name]
            for kind in ADK_TYPES[name].fields.values():
                visit(kind)

    for name in names:
        visit(name)
    if "IntermediateData" in found:  # one of two forms, which its keys tell apart
        visit("InvocationEvents")
    return found


def _adk_object(adk: AdkType, own: Schema, ours: Mapping[str, Schema]) -> Schema:
    """Return the schema of a type of ADK: what our own type says of its fields, and the fields that only ADK has.

    Unknown keys are refused if `eval-set validate` names them. Where it names only misspelt ones, so does the schema.
    """
    fields: dict[str, Schema] = {}
    for name, kind in adk.fields.items():
        field = own.get("properties", {}).get(name)
        fields[name] = field if field and (kind not in ADK_TYPES or kind in ours) else _or_null(_describe_field(kind))
    properties = _both(fields)
    schema: Schema = {"type": "object", "properties": properties}
    if "description" in own:
        schema["description"] = own["description"]
    required = own.get("required", ()) if own else sorted(adk.required)
    if required:
        schema["allOf"] = [_one_of_spellings(name) for name in required]
    if adk.unknown != "kept":
        return {**schema, "additionalProperties": False}
    return {**schema, "patternProperties": {_match_misspellings(properties): False}}


def _describe_field(kind: str) -> Schema:
    """Return the schema of a field by the notation of `adk_schema`. Lists are not told apart from single objects."""
    if kind in ADK_TYPES:
        return {"anyOf": [_ref(kind), {"type": "array", "items": _ref(kind)}]}
    return {"text": _TEXT, "number": {"type": ["number", "string"]}}.get(kind.rstrip("?"), {})


def _criterion(info: MetricInfo) -> Schema:
    """Return the schema of a criterion of a built-in metric: a threshold, or an object with options."""
    bounds: Schema = {}
    if info.highest is not None:
        bounds["maximum"] = info.highest
    if info.lowest is not None:
        bounds["minimum"] = min(info.lowest, 0.0)
    options: dict[str, Schema] = _any_value(TOLERATED)
    for name, meaning in info.options.items():
        options[name] = {
            "description": f"{meaning[0].upper()}{meaning[1:]}.",
            **_describe_values(info.choices.get(name, ())),
        }
    if JUDGE_MODEL_OPTIONS in info.options:
        options[JUDGE_MODEL_OPTIONS] |= _or_null(_ref("JudgeModelOptions"))
    return _describe_criterion(_options(options), bounds, description=info.purpose)


def _describe_criterion(options: Schema, bounds: Schema | None = None, *, description: str) -> Schema:
    """Return the schema of a criterion: a threshold with these bounds, or an object with it and options."""
    threshold = {"type": _THRESHOLD, "pattern": "[0-9]", **(bounds or {})}
    described = {"description": "The score from which a case passes.", **threshold}
    properties = {THRESHOLD: described, **options.get("properties", {})}
    return {
        "description": description,
        **threshold,
        **options,
        "properties": properties,
        "type": [*_THRESHOLD, "object"],
    }


def _if_given(key: str, then: Schema) -> Schema:
    return {"if": _one_of_spellings(key), "then": then}


def _others_in_criteria(**rule: Any) -> Schema:
    """Return a schema that applies a rule to the criteria; `additionalProperties` needs the known ones beside it."""
    known = {"properties": dict.fromkeys(known_metrics(), True)} if "additionalProperties" in rule else {}
    return {"properties": {"criteria": {**known, **rule}}}


def _describe_values(choices: Sequence[str | bool]) -> Schema:
    """Return the schema of an option with these values: words in any case, as ADK reads them, or their numbers."""
    if not choices:
        return {}
    if isinstance(choices[0], bool):
        return {"type": ["boolean", "null"]}
    words = "|".join(
        "".join("[-_ ]" if letter == "_" else f"[{letter.lower()}{letter.upper()}]" for letter in str(word))
        for word in choices
    )
    spelled = {"type": "string", "pattern": rf"^\s*({words})\s*$"}
    return {"anyOf": [{"enum": [*choices, None]}, spelled, {"type": "integer"}]}


def _judge_metric() -> Schema:
    fields = JudgeMetric.model_json_schema(by_alias=False)
    properties = {key: _or_null(fields["properties"][field]) for key, field in JUDGE_METRIC_KEYS.items()}
    properties["baseline"] = _or_null(_options({"column": _TEXT, "run": _TEXT}))
    for field in properties.values():
        _tidy({"properties": {"": field["anyOf"][0]}})
    return {"description": fields["description"], **_options(properties)}


def _record(description: str, **properties: Schema) -> Schema:
    """Return the schema of an object of a report, which has all of these keys."""
    return {"description": description, "type": "object", "required": [*properties], "properties": properties}


def _any_value(names: Iterable[str]) -> dict[str, Schema]:
    """Return keys with any value, in an order that is the same in every process."""
    return {name: {} for name in sorted(names)}


def _options(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object that may have these keys, in both spellings, and no others."""
    return {"type": "object", "properties": _both(properties), "additionalProperties": False}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NULL]} if schema else {}


def _make_list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _both(properties: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return properties in both spellings. Editors suggest the one that ADK writes."""
    camel = {to_camel(name): {**schema, "doNotSuggest": True} for name, schema in properties.items()}
    return {**camel, **properties}


def _one_of_spellings(name: str) -> Schema:
    spellings = dict.fromkeys((name, to_camel(name)))
    return {"anyOf": [{"required": [spelling]} for spelling in spellings]}


def _is_given(name: str) -> Schema:
    """Return the schema of objects that have a key in one of its spellings, with a value that is not null."""
    return {
        "anyOf": [
            {"required": [spelling], "properties": {spelling: {"not": _NULL}}} for spelling in (name, to_camel(name))
        ]
    }


def _match_misspellings(names: Iterable[str]) -> str:
    """Return a pattern of the names with one letter too many, one too few, another one, or two that changed places."""
    known = set(names)
    patterns: set[str] = set()
    for name in known:
        for index in range(len(name)):
            before, letter, after = name[:index], name[index], name[index + 1 :]
            patterns |= {f"{before}{after}", f"{before}[^{letter}]{after}", f"{before}.{letter}{after}"}
            if after and after[0] != letter:
                patterns.add(f"{before}{after[0]}{letter}{after[1:]}")
        patterns.add(f"{name}.")
    return f"^({'|'.join(sorted(patterns - known))})$"
