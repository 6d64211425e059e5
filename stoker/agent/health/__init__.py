"""How hosts and servers are: ``status`` and ``doctor``."""
