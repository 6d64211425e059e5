"""What the driver tells of GPUs, and who uses them."""
