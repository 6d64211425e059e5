"""Ansible's side of the comparison: what each task came to on each host, and the recap, as JSON."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase  # type: ignore[import-untyped]

DOCUMENTATION = """
    name: judge
    type: stdout
    short_description: outcomes as JSON
    description: Writes into the file that JUDGE_OUT names.
"""
_COLUMNS = {"failures": "failed", "unreachable": "unreachable"}


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Collects outcomes; Ansible calls its methods by name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "judge"

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, list[list[str]]] = {}

    def _add(self, result: Any, status: str) -> None:
        host, task = result._host.get_name(), result._task
        if task.action.endswith("include_tasks") and status == "ok":
            return  # the steps of the file tell it
        if task.action.endswith("meta"):
            return
        self._hosts.setdefault(host, []).append([task.get_name(), status])

    def v2_runner_on_ok(self, result: Any) -> None:
        self._add(result, "changed" if result._result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._add(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._add(result, "skipped")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._add(result, "ignored" if result._task.ignore_unreachable else "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        recap = {}
        for host in sorted(stats.processed):
            counts = stats.summarize(host)
            recap[host] = {_COLUMNS.get(name, name): count for name, count in counts.items() if count}
        with open(os.environ["JUDGE_OUT"], "w", encoding="utf-8") as file:
            json.dump({"tasks": self._hosts, "recap": recap}, file, sort_keys=True)
