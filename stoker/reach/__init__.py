"""How to get to a host, and the client of the agent that runs there."""
