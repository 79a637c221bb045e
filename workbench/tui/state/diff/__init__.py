"""Expected beside actual: which lines there are, what each difference cost, where the cursor is."""
