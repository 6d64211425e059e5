"""A server's life on a real GPU, told by Stoker's own commands; what they print becomes the evidence.

    python3 -m benchmarks.gpu --out docs/evidence

runs on a machine with an NVIDIA GPU (number 0 is used, and must be free) and needs nothing of it but a Python
with torch, ``transformers[serving]`` and Stoker with its extra ``lab``: no ssh, no sshd, no systemd. The SSH
side is the lab's own server, with this machine's GPU, driver and boot behind it. The model is made on the
spot. It takes about six minutes. ``--cpu`` rehearses all of it that needs no GPU.
"""
