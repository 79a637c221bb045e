"""The models of a workspace, which judge and play users: asked with the keys of the target, answers kept in the
project."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from workbench.engine.environment import environment_of
from workbench.llm.cache import Cache
from workbench.llm.models import ModelOptions, Models
from workbench.llm.scripted import Script, read_script
from workbench.model.target import Target
from workbench.store.settings import JudgeSettings


class Judges:
    """Access to models, kept from run to run. Used on the engine's loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        self._cache = Cache(root, warn=warn)
        self._models: dict[tuple[frozenset[tuple[str, str]], ModelOptions, Script | None], Models] = {}

    def models_for(self, target: Target, settings: JudgeSettings) -> Models:
        """The models as this target's environment reaches them: what its `.env` says counts where nothing else does.

        Raises StoreError for a script of it that cannot be read.
        """
        options = ModelOptions(
            concurrency=settings.concurrency,
            per_minute=settings.requests_per_minute,
            tries=settings.tries,
            timeout_seconds=settings.timeout_seconds,
        )
        environment = environment_of(target)
        script = None if target.scripted_models is None else read_script(target.scripted_models)
        key = frozenset(environment.items()), options, script
        if key not in self._models:
            self._models[key] = Models(environment, options, replies=self._cache, script=script)
        return self._models[key]

    async def close(self) -> None:
        """Give connections and the file of answers back."""
        models, self._models = list(self._models.values()), {}
        await asyncio.gather(*(each.close() for each in models))
        await self._cache.close()
