"""The page about the linter, made from its codes."""

from __future__ import annotations

from collections.abc import Iterator

from stoker import engines
from stoker.config.linting.codes import CODES
from stoker.engines import arguments

_HEAD = """\
# Lint

Made from the code by `inv dev.docs`. `inv lint` reads the whole project and touches no host: `invoke.yaml`,
the inventory, every profile as it is resolved for every host that it is meant for (`stoker_profiles`), launch
templates, playbooks as far as they need no run, and baselines. A profile that is meant for no host may be a
part of others: what it lacks is no mistake.

    profiles/nccl-tuned.yml:9:18: advice: NCCL_BUFFSIZE='16777216' is read by Simple alone, …

- The place is that of the very value, in whichever file it stands: a mistake that a profile has from what it
  extends is told there. The same thing for many hosts is one finding.
- An **error** will fail, or not do what was meant: the command ends with 2, and `restart`, `start`, `bench`
  and whatever else launches a profile or asks its server end with it before a host is touched. A **warning**
  probably will not, or hurts: these commands tell it once. An **advice** works, and there is something to
  know.
- `--profile` and `--host` narrow it; both together look at these profiles on these hosts, whether they are
  meant for them or not.
- `--online` runs each engine's own `--help` on the hosts, by the interpreter that would start it. What that
  does not name is an error; where a host cannot be asked, the stored list is used and a note says so.
- What holds for some versions of NCCL, CUDA or an engine only is judged by those that the host was last
  measured with (its latest real record of that engine in `results/`). `restart` and the others look at no
  record, and leave that to `inv lint`.
- `--json`, `--format sarif` (SARIF 2.1.0, for code scanning), `--format github` (annotations of a workflow).

In a workflow of GitHub Actions:

```yaml
- run: inv lint --format github
```

## Stored lists of arguments

| engine | version | read from |
|---|---|---|
"""
_TAIL = """
What an engine of another version takes may differ, so that an unknown name is a warning until `--online` has
proved it.

## Codes

Those of environment variables begin with the variable's family (`nccl-`, `cuda-`, `sglang-`, …) and come with
reason and source; the [page of variables](tuning.md) has what they are held against.

| code | | what | why | mend |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page, in Markdown."""
    codes = [
        f"| `{code}` | {one.severity} | {one.title} | {one.reason} | {one.mend} |"
        for code, one in sorted(CODES.items())
    ]
    return _HEAD + "\n".join(_lists()) + "\n" + _TAIL + "\n".join(codes) + "\n"


def _lists() -> Iterator[str]:
    for name in engines.names():
        stored = arguments.load(name)
        if stored is not None:
            yield f"| {name} | {stored.version} | {stored.source} |"
