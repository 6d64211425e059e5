"""A pretended ``nvidia-smi``: the real formats, over GPUs that the stand-ins really hold open.

It is started for every look at a host, so it imports little.
"""

from stoker.lab.standins.smi.main import main

__all__ = ["main"]
