"""Access to models that judge, and that play users: asked politely, answered from the cache where it knows.

`Models` is what the rest of the engine uses. Providers turn a request into what one vendor's library wants; limits,
retries, the cache and records of calls are the same for all of them. The libraries are imported when they are needed.
"""

from workbench.llm.models import ModelOptions, Models
from workbench.llm.requests import Message, ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble

__all__ = ["Message", "ModelError", "ModelOptions", "ModelReply", "ModelRequest", "Models", "Trouble"]
