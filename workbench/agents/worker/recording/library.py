"""What of Python's own library does nothing that anybody notices where it is imported, called or decorates something.

All of it is there in every version that agents may run with, and for every platform.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, FrozenSet

TOP_LEVEL = frozenset(
    (
        "abc", "asyncio", "base64", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
        "enum", "functools", "hashlib", "html", "inspect", "io", "itertools", "json", "logging", "math", "operator",
        "os", "pathlib", "random", "re", "secrets", "shutil", "statistics", "string", "sys", "tempfile", "textwrap",
        "threading", "time", "traceback", "types", "typing", "uuid", "warnings",
    )
)  # fmt: skip
"""Modules that may be imported."""

NAMES: Dict[str, FrozenSet[str]] = {
    "abc": frozenset(("ABC", "abstractmethod")),
    "collections": frozenset(("ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple")),
    "collections.abc": frozenset(
        (
            "AsyncGenerator", "AsyncIterable", "AsyncIterator", "Awaitable", "Callable", "Collection", "Coroutine",
            "Generator", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Sized",
        )
    ),
    "contextlib": frozenset(
        (
            "AsyncExitStack", "ExitStack", "asynccontextmanager", "closing", "contextmanager", "nullcontext",
            "redirect_stderr", "redirect_stdout", "suppress",
        )
    ),
    "copy": frozenset(("copy", "deepcopy")),
    "dataclasses": frozenset(("asdict", "astuple", "dataclass", "field", "fields", "is_dataclass", "replace")),
    "datetime": frozenset(("date", "datetime", "time", "timedelta", "timezone", "tzinfo")),
    "decimal": frozenset(("Decimal", "InvalidOperation")),
    "enum": frozenset(("Enum", "Flag", "IntEnum", "auto", "unique")),
    "functools": frozenset(
        ("cache", "cached_property", "lru_cache", "partial", "reduce", "singledispatch", "total_ordering", "wraps")
    ),
    "io": frozenset(("BytesIO", "StringIO")),
    "itertools": frozenset(("accumulate", "chain", "count", "cycle", "groupby", "islice", "product", "repeat")),
    "json": frozenset(("JSONDecodeError", "dumps", "loads")),
    "math": frozenset(("ceil", "floor", "inf", "isclose", "isnan", "log", "pi", "sqrt")),
    "operator": frozenset(("attrgetter", "itemgetter")),
    "pathlib": frozenset(("Path", "PurePath", "PurePosixPath")),
    "random": frozenset(("Random", "choice", "randint", "sample", "shuffle")),
    "string": frozenset(("Template", "ascii_letters", "ascii_lowercase", "digits", "punctuation")),
    "textwrap": frozenset(("dedent", "indent", "shorten", "wrap")),
    "time": frozenset(("monotonic", "perf_counter", "sleep", "time")),
    "types": frozenset(("MappingProxyType", "ModuleType", "SimpleNamespace", "TracebackType")),
    "typing": frozenset(
        (
            "Annotated", "Any", "AsyncGenerator", "AsyncIterator", "Awaitable", "Callable", "ClassVar", "Dict", "Final",
            "FrozenSet", "Generator", "Generic", "Iterable", "Iterator", "List", "Literal", "Mapping",
            "MutableMapping", "NamedTuple", "NoReturn", "Optional", "Protocol", "Sequence", "Set", "TYPE_CHECKING",
            "Tuple", "Type", "TypeVar", "TypedDict", "Union", "cast", "get_args", "get_origin", "get_type_hints",
        )
    ),
    "uuid": frozenset(("UUID", "uuid4", "uuid5")),
}  # fmt: skip
"""Names that may be imported from modules."""

DECORATORS = frozenset(
    (
        "abc.abstractmethod", "contextlib.asynccontextmanager", "contextlib.contextmanager", "functools.cache",
        "functools.cached_property", "functools.lru_cache",
    )
)  # fmt: skip
"""What may stand above a function."""
