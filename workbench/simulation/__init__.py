"""Who talks to the agent. A case's fixed conversation is the simplest user: it says what the file says."""
