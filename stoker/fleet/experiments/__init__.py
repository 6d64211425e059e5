"""Questions that take several launches: bisect, sweep, spec, confirm, verify."""
