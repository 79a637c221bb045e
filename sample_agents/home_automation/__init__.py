"""A function agent that looks after a home, in four ways of writing."""
