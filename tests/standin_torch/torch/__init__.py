"""A stand-in for torch, as far as the probe of all-reduces asks for it: it says ``simulated`` of itself.

Its tensors repeat a short pattern, and its ranks meet at a socket. ``STANDIN_TORCH`` makes a rank misbehave:
``hang``, ``die``, ``wrong`` (a sum that is none) or ``raise``, each in the last rank's tenth all-reduce;
``absent`` makes the import fail in the ranks.
"""

# mypy: ignore-errors
from __future__ import annotations

import os
import sys

if os.environ.get("STANDIN_TORCH") == "absent" and "rank" in sys.argv:
    raise ImportError("libcudart.so.13: cannot open shared object file")

__version__ = "0.0.0+standin"
simulated = True
float64, float32, float16, bfloat16 = 8, 4, 2, 2


class Tensor:
    """So many elements, which repeat a pattern."""

    def __init__(self, count, pattern, size=4):
        self.count, self.pattern, self.size = count, list(pattern), size

    def __mod__(self, other):
        return Tensor(self.count, range(other), self.size)

    def __add__(self, other):
        return Tensor(self.count, [value + other for value in self.pattern], self.size)

    def __rmul__(self, other):
        return Tensor(self.count, [value * other for value in self.pattern], self.size)

    def __ne__(self, other):
        return Tensor(self.count, [a != b for a, b in zip(self.pattern, other.pattern, strict=True)], 1)

    __hash__ = None

    def sum(self):
        return sum(self.pattern)

    def to(self, dtype):
        return Tensor(self.count, self.pattern, dtype)

    def clone(self):
        return Tensor(self.count, self.pattern, self.size)

    def numel(self):
        return self.count

    def element_size(self):
        return self.size

    def tolist(self):
        return list(self.pattern)


def device(kind, index=0):
    return kind


def set_num_threads(count):
    """Nothing here has threads."""


def zeros(count, device=None):
    return Tensor(count, [0])


def empty(count, dtype):
    return Tensor(count, [], dtype)


def tensor(values, dtype, device=None):
    return Tensor(len(values), values, dtype)


def arange(count, device=None):
    return Tensor(count, [])


class cuda:  # noqa: N801  # as torch has it
    @staticmethod
    def is_available():
        return False
