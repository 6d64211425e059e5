"""What /proc tells of processes: who they are, what they hold, which belong together."""
