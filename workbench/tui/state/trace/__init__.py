"""What the trace pane shows: the steps of a session as a tree, and each of them in detail. Free of Textual."""
