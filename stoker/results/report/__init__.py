"""Records as one self-contained page: what is in it (``build``), and the page itself (``page``)."""
