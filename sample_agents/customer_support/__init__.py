"""The customer-support agent of the Vertex AI documentation."""
