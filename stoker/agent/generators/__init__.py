"""The load generators: streams, requests, when each token came, and what it comes to."""
