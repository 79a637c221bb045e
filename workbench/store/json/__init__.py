"""JSON as text: read with tolerance, and edited so that every other byte stays as it is."""
