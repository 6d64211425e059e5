"""The keywords of playbooks: those that are built, and Ansible's that are known and have no place here."""

from __future__ import annotations

from collections.abc import Mapping

# Handed on from plays to blocks and from blocks to tasks; the nearest wins.
HANDED_ON = frozenset(
    (
        *("ignore_errors", "ignore_unreachable", "no_log", "timeout", "run_once", "any_errors_fatal"),
        *("become", "become_user", "check_mode", "diff", "delegate_to"),
    )
)
_EVERYWHERE = frozenset((*HANDED_ON, "name", "tags", "vars", "environment", "become_method"))
PLAY = frozenset(
    (
        *(_EVERYWHERE - {"delegate_to"}),
        *("hosts", "vars_files", "tasks", "pre_tasks", "post_tasks", "handlers", "gather_facts", "serial"),
        *("max_fail_percentage", "strategy", "force_handlers"),
    )
)
IMPORT = frozenset(("import_playbook", "name", "tags", "vars", "when"))
BLOCK = frozenset((*_EVERYWHERE, "block", "rescue", "always", "when", "notify"))
TASK = frozenset(
    (
        *_EVERYWHERE,
        *("when", "loop", "loop_control", "register", "args", "failed_when", "changed_when", "until"),
        *("retries", "delay", "notify"),
    )
)
HANDLER = TASK | {"listen"}
LOOP_CONTROL = frozenset(("loop_var", "index_var", "label", "pause"))
STRATEGIES = ("linear", "free")

_NOWHERE = (
    *("become_exe", "become_flags", "collections", "connection", "debugger", "module_defaults", "port"),
    *("remote_user", "throttle"),
)
_LATER_PLAY = frozenset(
    (
        *_NOWHERE,
        *("fact_path", "gather_subset", "gather_timeout", "order", "roles", "validate_argspec"),
        "vars_prompt",
    )
)
_LATER_TASK = frozenset(
    (
        *_NOWHERE,
        *("action", "async", "delegate_facts", "listen", "local_action", "poll"),
        # Modules: what they do has a place among ours, or belongs to roles.
        *("copy", "import_role", "include_role", "include_vars", "script", "template", "wait_for"),
    )
)
_INSTEAD: Mapping[str, str] = {
    "become_exe": "sudo is found on the host's PATH",
    "become_flags": "sudo must ask for nothing: allow it in sudoers",
    "connection": "set ansible_connection for the host in the inventory",
    "include_vars": "name the file under vars_files",
    "listen": "a handler listens, not a task",
    "local_action": "use delegate_to: localhost",
    "order": "hosts are taken in the inventory's order",
    "port": "set ansible_port for the host in the inventory",
    "remote_user": "set ansible_user for the host in the inventory",
    "roles": "put the role's tasks into a file: include_tasks or import_tasks",
    "import_role": "put the role's tasks into a file: import_tasks",
    "include_role": "put the role's tasks into a file: include_tasks",
    "throttle": "use serial, or --forks",
    "vars_prompt": "give the variable by --extra-var",
    "wait_for": "the module wait waits for a server",
}


def later(word: str, of: str) -> str | None:
    """What to do without a keyword of Ansible's that is not supported.

    Args:
        word: The keyword.
        of: ``play`` or ``task``.

    Returns:
        The advice; None where the word is not such a keyword.
    """
    known = _LATER_PLAY if of == "play" else _LATER_TASK
    if of != "play" and word.startswith("with_"):
        return "use loop"
    return _INSTEAD.get(word, "take it out") if word in known else None


OWN_NAMES = frozenset(
    (
        *("ansible_check_mode", "ansible_diff_mode", "ansible_play_batch", "ansible_play_hosts"),
        *("ansible_play_hosts_all", "group_names", "groups"),
        *("hostvars", "inventory_dir", "inventory_file", "inventory_hostname", "inventory_hostname_short"),
        *("item", "omit", "playbook_dir"),
    )
)
"""Variables that Stoker sets itself, which a book may not."""
