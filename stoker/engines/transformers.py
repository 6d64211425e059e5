"""``transformers serve``: one process, for trying things out.

Without a model on its command line it loads at the first request, so health comes long before readiness. It
answers 422 to a field that it does not know, takes no ``stream_options`` and sends the usage in the last
chunk anyway. Its list of models is the hub's cache on that host, not what it serves, and without a cache it
answers 500.
"""

from __future__ import annotations

from stoker.engines import common
from stoker.engines.base import ArgvShape, Engine, Metrics, Stage

TRANSFORMERS = Engine(
    name="transformers",
    shapes=(ArgvShape(program="transformers", subcommand="serve"),),
    command=("transformers", "serve"),
    import_name="transformers",
    distribution="transformers",
    grace_s=15.0,
    stages=(
        Stage(
            "loading the model", r"\[transformers\] Loading |Loading weights:\s+(?P<percent>\d{1,3})%", 0.10
        ),
        Stage("starting the HTTP server", r"Started server process", 0.90),
    ),
    ready=r"Application startup complete\.",
    fatal=(common.PORT_IN_USE, *common.PYTHON_ENGINE),
    stream_usage=False,
    lists_model=False,
    metrics=Metrics(path=""),
    env_prefixes=("TRANSFORMERS_",),
)
