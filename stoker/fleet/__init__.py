"""Many hosts: bounded fan-out, the verbs, playbooks."""
