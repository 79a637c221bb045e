"""What changed, which cases that affects, and why."""
