"""Any other command that serves an OpenAI API: the profile says the command, the API says the rest."""

from __future__ import annotations

from stoker.engines import common
from stoker.engines.base import Engine, Metrics

OPENAI = Engine(
    name="openai",
    api_key_env="OPENAI_API_KEY",
    fatal=(common.PORT_IN_USE, *common.PYTHON_ENGINE),
    health_path="",
    metrics=Metrics(path=""),
)
