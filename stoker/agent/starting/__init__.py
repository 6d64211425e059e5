"""The life of a server: checked before, launched, watched until it is ready, proved."""
