"""Calls to models that judge or play users, with limits, retries and a cache.

The rest of the engine uses `models.Models`. A provider translates a request for the library of one vendor. Limits,
retries, the cache and recordings are the same for all providers. Libraries are imported on first use.
"""
