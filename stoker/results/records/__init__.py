"""Records: what a run leaves, how it is read again, the folder of all of them and its index."""
