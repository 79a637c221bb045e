"""Tools that are not called: what answers in their place in one case, and what is written down of their calls."""
