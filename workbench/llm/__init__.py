"""Access to models that judge, and that play users: asked politely, answered from the cache where it knows.

`models.Models` is what the rest of the engine uses. Providers turn a request into what one vendor's library wants;
limits, retries, the cache and records of calls are the same for all. The libraries are imported when they are needed.
"""
