"""What things are: types and pure functions on them. No I/O, no asyncio, imports nothing else of ours."""
