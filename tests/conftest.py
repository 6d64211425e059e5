"""What all tests share: generated cases are the same in each run, for no chance may decide a landing."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
if "STOKER_FUZZ" not in os.environ:  # inv dev.fuzz looks for new ones
    settings.load_profile("same")
