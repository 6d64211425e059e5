"""How fast a fleet is reached, beside what people would use instead: see :mod:`benchmarks.fleet.__main__`."""
