"""Widgets: each shows what it is given and says what the user did; none touches disk, engine or application."""
