"""Known secrets in what a case expects: masked as they are in what an agent did, so that both can be compared."""

from __future__ import annotations

import json
from typing import TypeVar

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.text import knows_secrets, mask_data, may_hold_secret

_Model = TypeVar("_Model", EvalCase, Invocation)


def without_secrets(given: _Model) -> _Model:
    """The model with known secrets masked; the same object if it holds none."""
    if not knows_secrets():
        return given
    data = given.model_dump(mode="json")
    return given.model_validate(mask_data(data)) if may_hold_secret(json.dumps(data).encode()) else given
