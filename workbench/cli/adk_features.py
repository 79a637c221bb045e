"""The features that google-adk 2.13 knows, for `--enable_features` and `--disable_features`.

They are written down because importing ADK takes seconds; a test compares them with the installed package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

ADK_FEATURES = frozenset(
    {
        "AGENT_CONFIG",
        "AGENT_ENGINE_SANDBOX_ENVIRONMENT",
        "AGENT_STATE",
        "AUTHENTICATED_FUNCTION_TOOL",
        "BASE_AUTHENTICATED_TOOL",
        "BIGTABLE_TOOLSET",
        "BIGTABLE_TOOL_SETTINGS",
        "BIG_QUERY_TOOLSET",
        "BIG_QUERY_TOOL_CONFIG",
        "CASCADE_LIVE",
        "CLASSIFIER",
        "COMPUTER_USE",
        "DATA_AGENT_TOOLSET",
        "DATA_AGENT_TOOL_CONFIG",
        "DAYTONA_ENVIRONMENT",
        "DYNAMIC_INSTRUCTION_ROUTING",
        "E2B_ENVIRONMENT",
        "ELEVEN_LABS",
        "ENVIRONMENT_SIMULATION",
        "EVENTARC_TOOLSET",
        "EVENTARC_TOOL_CONFIG",
        "FALLBACK_MODEL",
        "FUNCTION_TOOL_ARG_VALIDATION",
        "GCS_ADMIN_TOOLSET",
        "GCS_TOOLSET",
        "GCS_TOOL_SETTINGS",
        "GOOGLE_CREDENTIALS_CONFIG",
        "GOOGLE_TOOL",
        "IN_MEMORY_SESSION_SERVICE_LIGHT_COPY",
        "JSON_SCHEMA_FOR_FUNC_DECL",
        "LIVEKIT",
        "MCP_AGENT_SERVER",
        "MCP_GRACEFUL_ERROR_HANDLING",
        "MCP_MODERN_PROTOCOL",
        "MONGODB_MEMORY_SERVICE",
        "MONGODB_SESSION_SERVICE",
        "MONGODB_TOOLSET",
        "MONGODB_TOOL_SETTINGS",
        "OPENSANDBOX_ENVIRONMENT",
        "PLUGGABLE_AUTH",
        "PROGRESSIVE_SSE_STREAMING",
        "PUBSUB_TOOLSET",
        "PUBSUB_TOOL_CONFIG",
        "SKILL_LIFECYCLE",
        "SKILL_TOOLSET",
        "SNAKE_CASE_SKILL_NAME",
        "SPANNER_ADMIN_TOOLSET",
        "SPANNER_TOOLSET",
        "SPANNER_TOOL_SETTINGS",
        "SPANNER_VECTOR_STORE",
        "TOOL_CONFIG",
        "TOOL_CONFIRMATION",
    }
)


def unknown_features(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name that google-adk 2.13 does not know; a newer one may."""
    from workbench.model.text import did_you_mean

    for name in names:
        if name not in ADK_FEATURES:
            near = did_you_mean(name.upper(), ADK_FEATURES)
            yield f"unknown feature {name!r}: google-adk 2.13 has none of this name, and ignores it{near}"
