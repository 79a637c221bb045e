"""What the run pane, the plan and the criteria picker show."""
