"""What people write (inventory, profiles, playbooks) as typed values, each mistake with file:line."""
