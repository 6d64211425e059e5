"""Why a server is slower than it was: what differs between two fingerprints, the likeliest first."""
