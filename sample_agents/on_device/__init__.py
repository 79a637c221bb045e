"""The on-device assistant of the Vertex AI documentation."""
