"""Earlier runs: of one case, of a set or target, and two of them side by side."""
