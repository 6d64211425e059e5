"""Stand-ins for SGLang, vLLM and nvidia-smi: real processes and formats, pretended GPUs.

They run in the lab's virtual environments with the standard library and setproctitle, never inside Stoker.
"""

LABEL = "simulated by Stoker's lab"
