"""Stoker's commands for ``inv`` in this project; add tasks of your own with ``ns.add_task``."""

from stoker.tasks import mount

ns = mount(__file__)
