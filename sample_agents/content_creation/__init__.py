"""The content-creation agent of the Vertex AI documentation."""
