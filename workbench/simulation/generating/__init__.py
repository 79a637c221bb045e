"""Conversation scenarios that a model writes, from what an agent says of itself. Nothing here runs agents or saves."""
