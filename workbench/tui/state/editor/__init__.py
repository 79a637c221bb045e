"""The case editor without a screen: a case as rows, what can be done with each, and how typed text becomes a value."""
