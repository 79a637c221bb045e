"""`AgentEvaluator`, for test code that was written against ADK's."""
