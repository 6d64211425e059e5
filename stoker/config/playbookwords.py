"""The keywords of playbooks: those that are built, and Ansible's that are known and not built yet."""

from __future__ import annotations

from collections.abc import Mapping

PLAY = frozenset(("name", "hosts", "vars", "vars_files", "tasks", "tags", "gather_facts"))
TASK = frozenset(
    (
        *("name", "when", "loop", "register", "tags", "vars", "args", "ignore_errors", "failed_when"),
        *("changed_when", "timeout", "no_log"),
    )
)

_EVERYWHERE = (
    *(
        "any_errors_fatal",
        "become",
        "become_exe",
        "become_flags",
        "become_method",
        "become_user",
        "check_mode",
    ),
    *(
        "collections",
        "connection",
        "debugger",
        "diff",
        "environment",
        "ignore_unreachable",
        "module_defaults",
    ),
    *("port", "remote_user", "run_once", "throttle"),
)
_LATER_PLAY = frozenset(
    (
        *_EVERYWHERE,
        *("fact_path", "force_handlers", "gather_subset", "gather_timeout", "handlers", "ignore_errors"),
        *(
            "import_playbook",
            "max_fail_percentage",
            "no_log",
            "order",
            "post_tasks",
            "pre_tasks",
            "roles",
            "serial",
        ),
        *("strategy", "timeout", "validate_argspec", "vars_prompt"),
    )
)
_LATER_TASK = frozenset(
    (
        *_EVERYWHERE,
        *("action", "always", "async", "block", "delay", "delegate_facts", "delegate_to", "listen"),
        *("local_action", "loop_control", "notify", "poll", "rescue", "retries", "until"),
        # Modules: what they do belongs to the book's structure or has a place among ours.
        *(
            "copy",
            "import_role",
            "import_tasks",
            "include_role",
            "include_tasks",
            "include_vars",
            "meta",
            "script",
        ),
        *("template", "wait_for"),
    )
)
_INSTEAD: Mapping[str, str] = {
    "become": "log in as the user that owns the servers",
    "connection": "set ansible_connection for the host in the inventory",
    "environment": "name the variables in the command, or in the profile for a server",
    "order": "hosts are taken in the inventory's order",
    "port": "set ansible_port for the host in the inventory",
    "pre_tasks": "put them first under tasks",
    "post_tasks": "put them last under tasks",
    "remote_user": "set ansible_user for the host in the inventory",
    "serial": "name fewer hosts at a time with --limit",
    "wait_for": "the module wait waits for a server",
}


def later(word: str, of: str) -> str | None:
    """What to do without a keyword of Ansible's that is not supported yet.

    Args:
        word: The keyword.
        of: ``play`` or ``task``.

    Returns:
        The advice; None where the word is not such a keyword.
    """
    known = _LATER_PLAY if of == "play" else _LATER_TASK
    if of == "task" and word.startswith("with_"):
        return "use loop"
    return _INSTEAD.get(word, "take it out") if word in known else None


OWN_NAMES = frozenset(
    (
        *("ansible_check_mode", "ansible_play_hosts", "ansible_play_hosts_all", "group_names", "groups"),
        *("hostvars", "inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short"),
        *("item", "omit", "playbook_dir"),
    )
)
"""Variables that Stoker sets itself, which a book may not."""
