"""The types of the domain, and pure functions on them. No I/O and no asyncio; imports no other package of ours."""
