"""What a command leaves when the link, the controller, the agent or the host fails under it."""
