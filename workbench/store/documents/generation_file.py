"""Files that say which scenarios a model is to write, as ADK's `--user_simulation_config_file` has them."""

from __future__ import annotations

from pathlib import Path

from workbench.model.generation import GenerationConfig
from workbench.model.model_names import wrong_vendor
from workbench.model.text import did_you_mean
from workbench.store.documents.cases import InvalidData, validated
from workbench.store.documents.places import to_snake
from workbench.store.documents.reader import read_json


def load_generation(path: Path) -> GenerationConfig:
    """What the file says. Raises StoreError with the place of what is wrong, an unknown key too."""
    loaded = read_json(path)
    try:
        config = validated(GenerationConfig, loaded.data)
    except InvalidData as invalid:
        fault = invalid.faults[0]
        raise loaded.error(fault.place, found=fault.found, expected=fault.expected) from invalid
    known = tuple(GenerationConfig.model_fields)
    for key in loaded.data:
        if to_snake(key) not in known:
            expected = f"one of {', '.join(known)}{did_you_mean(to_snake(key), known)}"
            raise loaded.error((key,), found=f"the unknown key {key!r}", expected=expected)
    expected_name = None if config.model_name is None else wrong_vendor(config.model_name)
    if expected_name is not None:
        place = ("modelName",) if "modelName" in loaded.data else ("model_name",)
        raise loaded.error(place, found=repr(config.model_name), expected=expected_name)
    return config
