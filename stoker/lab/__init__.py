"""The embedded lab: hosts that are real SSH servers on loopback, simulated GPUs, stand-in engines.

``lab`` has what the commands call; nothing here is imported by the rest of Stoker.
"""
