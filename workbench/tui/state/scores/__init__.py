"""How each criterion judged: one case with its repeats, or all cases of a set or target."""
