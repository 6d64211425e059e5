"""What runs on a host: standard library only, sent at connect, Python 3.8 and newer."""
