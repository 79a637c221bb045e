"""What google-adk 2.13 itself reads: the keys of its types, which of them it requires, and what it does with others.

For `validate` only. Our own types are more tolerant; these tables say what ADK would refuse or drop without a word.
They are written down because importing ADK takes seconds; a test compares them with the installed package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Unknown = Literal["refused", "dropped", "kept"]


@dataclass(frozen=True, kw_only=True)
class AdkType:
    """One type: its fields with the types of their values ("" for values that are not checked here).

    Scalars are `text` or `number`; a question mark says that null is allowed.
    """

    fields: dict[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    unknown: Unknown = "refused"
    reads_camel_case: bool = True


def _type(fields: str, *, required: str = "", unknown: Unknown = "refused", reads_camel_case: bool = True) -> AdkType:
    """A type from the notation `name name:Type`."""
    pairs = (item.partition(":") for item in fields.split())
    return AdkType(
        fields={name: kind for name, _, kind in pairs},
        required=frozenset(required.split()),
        unknown=unknown,
        reads_camel_case=reads_camel_case,
    )


ADK_TYPES = {
    "EvalSet": _type(
        "eval_set_id name:text? description:text? eval_cases:EvalCase creation_timestamp:number",
        required="eval_set_id eval_cases",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "EvalCase": _type(
        "eval_id conversation:Invocation conversation_scenario:ConversationScenario session_input:SessionInput"
        " creation_timestamp rubrics:Rubric final_session_state",
        required="eval_id",
        unknown="kept",
    ),
    "Invocation": _type(
        "invocation_id user_content:Content final_response:Content intermediate_data:IntermediateData"
        " creation_timestamp duration:number? model_duration:number? tool_duration:number?"
        " rubrics:Rubric app_details:AppDetails",
        required="user_content",
    ),
    "Content": _type("parts:Part role"),
    "Part": _type(
        "media_resolution code_execution_result:CodeExecutionResult executable_code:ExecutableCode file_data:FileData"
        " function_call:FunctionCall function_response:FunctionResponse inline_data:Blob text thought thought_signature"
        " video_metadata:VideoMetadata tool_call tool_response part_metadata audio_transcription media_processing"
        " speech_metadata"
    ),
    "CodeExecutionResult": _type("outcome output id"),
    "ExecutableCode": _type("code language id"),
    "FileData": _type("display_name file_uri mime_type"),
    "Blob": _type("data display_name mime_type"),
    "VideoMetadata": _type("end_offset fps start_offset"),
    "FunctionCall": _type("id args name partial_args will_continue"),
    "FunctionResponse": _type("will_continue scheduling parts id name response"),
    "IntermediateData": _type(
        "tool_uses:FunctionCall tool_responses:FunctionResponse intermediate_responses:IntermediateResponse"
    ),
    "InvocationEvents": _type("invocation_events:InvocationEvent"),
    "InvocationEvent": _type(
        "author content:Content grounding_metadata usage_metadata model_version", required="author", unknown="dropped"
    ),
    "Rubric": _type("rubric_id rubric_content:RubricContent description type", required="rubric_id rubric_content"),
    "RubricContent": _type("text_property"),
    "AppDetails": _type("agent_details"),
    "ConversationScenario": _type(
        "starting_prompt conversation_plan user_persona:UserPersona", required="starting_prompt conversation_plan"
    ),
    "UserPersona": _type(
        "id description behaviors:UserBehavior",
        required="id description behaviors",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "UserBehavior": _type(
        "name description behavior_instructions violation_rubrics",
        required="name description behavior_instructions violation_rubrics",
        unknown="dropped",
        reads_camel_case=False,
    ),
    "SessionInput": _type("app_name user_id session_id state", required="app_name user_id", unknown="kept"),
    "EvalConfig": _type(
        "criteria custom_metrics user_simulator_config live_model_config:LiveModelConfig", unknown="dropped"
    ),
    "LiveModelConfig": _type("timeout_seconds", unknown="dropped"),
    "CustomMetricConfig": _type(
        "code_config:CodeConfig metric_info:MetricInfo description", required="code_config", unknown="dropped"
    ),
    "CodeConfig": _type("name", required="name", reads_camel_case=False),
    "MetricInfo": _type(
        "metric_name description metric_value_info:MetricValueInfo requires_threshold",
        required="metric_name metric_value_info",
    ),
    "MetricValueInfo": _type("interval:Interval"),
    "Interval": _type("min_value open_at_min max_value open_at_max", required="min_value max_value"),
    "ConversationScenarios": _type("scenarios:ConversationScenario"),
}

FORMAT_FIELDS = frozenset(name for kind in ADK_TYPES.values() for name in kind.fields)
"""All keys that the formats define, in snake_case."""

EVENT_FIELDS = frozenset({"invocation_events"})
FLAT_FIELDS = frozenset({"tool_uses", "tool_responses", "intermediate_responses"})
"""The two families of `intermediate_data`, which ADK does not read together."""
