"""Who talks to the agent: what a case's fixed conversation says, or a model that plays the user of a scenario."""
