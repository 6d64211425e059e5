"""Arguments of the pretended ``nvidia-smi``, and its plain and comma-separated answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from stoker.lab.standins import devices
from stoker.lab.standins.smi import fields, reading, table
from stoker.lab.standins.smi.reading import Reading

_BAD_ARGUMENTS = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


class _ExitError(Exception):
    """Ends with a message and a status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text, self.status = text, status


def main(machine: str, argv: Sequence[str]) -> int:
    """Answer one call.

    Args:
        machine: The host's folder.
        argv: What follows ``nvidia-smi``.

    Returns:
        The exit status, as of the real program.
    """
    try:
        sys.stdout.write(_answer(machine, _split(argv)))
        return 0
    except _ExitError as error:
        sys.stdout.write(error.text)
        return error.status


def _split(argv: Sequence[str]) -> dict[str, str]:
    """Options to their values; the short ones by their long names."""
    options: dict[str, str] = {}
    words = list(argv)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name in ("-i", "--id", "-d", "--display") and not equals:
            value = words.pop(0) if words else ""
        known = {"-L": "--list-gpus", "-q": "--query", "-x": "--xml-format", "-i": "--id", "-d": "--display"}
        name = known.get(name, name)
        if name not in (*known.values(), "--query-gpu", "--query-compute-apps", "--format"):
            raise _ExitError(_BAD_ARGUMENTS, 1)
        options[name] = value
    return options


def _answer(machine: str, options: dict[str, str]) -> str:
    host = devices.load(machine)
    if "--query-gpu" in options:
        names = _names(options["--query-gpu"], fields.canonical)
        return _csv(options, names, [[fields.value(n, r) for n in names] for r in _chosen(host, options)])
    if "--query-compute-apps" in options:
        names = _names(options["--query-compute-apps"], fields.canonical_app)
        rows = [
            [fields.app_value(name, gpu, app) for name in names]
            for gpu in _chosen(host, options)
            for app in gpu.apps
        ]
        return _csv(options, names, rows)
    if "--list-gpus" in options:
        rows_of = (f"GPU {g.number}: {g.name} (UUID: {g.uuid})\n" for g in host.gpus)
        return "".join(rows_of)
    if "--query" in options:
        from stoker.lab.standins.smi import report  # rarely asked for

        render = report.xml if "--xml-format" in options else report.text
        return render(host, _chosen(host, options))
    if set(options) - {"--id"}:
        raise _ExitError(_BAD_ARGUMENTS, 1)
    return table.render(host, _chosen(host, options))


def _chosen(host: devices.Machine, options: dict[str, str]) -> list[Reading]:
    readings = reading.read(host)
    if "--id" not in options:
        return readings
    wanted = options["--id"].split(",")
    chosen = [r for r in readings if {str(r.gpu.number), r.gpu.uuid, r.gpu.bus_id} & set(wanted)]
    if not chosen:
        raise _ExitError("No devices were found\n", 6)
    return chosen


def _names(text: str, canonical: Callable[[str], str]) -> list[str]:
    names = []
    for name in text.split(","):
        known = canonical(name.strip())
        if not known:
            raise _ExitError(f'Field "{name.strip()}" is not a valid field to query.\n\n', 2)
        names.append(known)
    return names


def _csv(options: dict[str, str], names: list[str], rows: list[list[str]]) -> str:
    style = options.get("--format", "").split(",")
    if style[0] != "csv":
        raise _ExitError('"--format=" switch is missing.\n', 2)
    lines = [] if "noheader" in style else [", ".join(fields.header(name) for name in names)]
    for row in rows:
        cells = [_bare(n, cell) for n, cell in zip(names, row, strict=True)] if "nounits" in style else row
        lines.append(", ".join(cells))
    return "".join(line + "\n" for line in lines)


def _bare(name: str, cell: str) -> str:
    unit = "MiB" if name == "used_gpu_memory" else fields.unit_of(name)
    return cell.removesuffix(f" {unit}") if unit else cell
