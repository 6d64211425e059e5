"""Log files: their end, their growth, their times, what they tell of a start."""
