"""Templates in a sandbox, with Ansible's filters and tests."""
