"""Watch mode as the screen shows it: what was saved, what that ran and why, and which verdicts do not hold."""
