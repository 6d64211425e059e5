"""The kinds of value in a profile as types: what checks each, and what its JSON Schema says."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from stoker import benchmarks, engines
from stoker.config import names
from stoker.config import schema_parts as schema
from stoker.config.profiles import kinds as kinds
from stoker.config.profiles.kinds import SecretRef

_END = r"$(?!\n)"  # where JSON Schema's `$` is, for readers whose `$` also stands before a last line break
_SIGN = r"[^\u0000-\u001f\u007f]"
_TEXT = r"^[^\u0000]*" + _END
_OWN = "|".join(sorted(kinds.SHELLS_OWN))
_NUMBER_OF_IPV4 = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

VARIABLE_PATTERN = rf"^(?!STOKER_|BASH)(?!(?:{_OWN}){_END}){kinds.VARIABLE.pattern}{_END}"
ARGUMENT_PATTERN = f"^{kinds.ARGUMENT.pattern}{_END}"
NAME_PATTERN = f"^{names.NAME.pattern}{_END}"

_LINE = schema.text(rf"^(?=[\s\S]*\S){_SIGN}+{_END}")
_SECRET = schema.text(f"^{kinds.SECRET.pattern}{_END}", numbers=False)
_VALUE = schema.text(_TEXT, flags=True)
_COMMAND = rf"^(?=(?:[\s\S]*[\n\r])?[ \t]*[^\s#])[^\u0000]*{_END}"
_ADDRESS = rf"^(?:{_NUMBER_OF_IPV4}(?:\.{_NUMBER_OF_IPV4}){{3}}|(?=[^:]*:)[0-9A-Fa-f:.]+){_END}"
_MODEL = rf"^(?![~\-\s]){_SIGN}*[^\s\u0000-\u001f\u007f]{_END}"
_PROGRAM = rf"^(?:/{_SIGN}*|[^/~\-\s\u0000-\u001f\u007f][^/\u0000-\u001f\u007f]*){_END}"
_GPU = {"anyOf": [schema.whole(0, 1023), schema.text(f"^(?:{kinds.GPU_UUID.pattern}){_END}", numbers=False)]}
_GPUS: schema.Schema = {
    "anyOf": [{"const": "all"}, {"type": "array", "items": _GPU, "uniqueItems": True}, schema.TEMPLATE]
}


def _or_template(kind: schema.Schema) -> WithJsonSchema:
    return WithJsonSchema(schema.template_or(*kind.get("anyOf", [kind])))


def _pattern(pattern: str) -> WithJsonSchema:
    return _or_template(schema.text(pattern, numbers=False))


def _whole(least: int, most: int) -> WithJsonSchema:
    return _or_template(schema.whole(least, most))


Engine = Annotated[str, PlainValidator(kinds.engine), _or_template({"enum": list(engines.names())})]
Text = Annotated[str, PlainValidator(kinds.text), WithJsonSchema(_VALUE)]
Line = Annotated[str, PlainValidator(kinds.line), _or_template(_LINE)]
Lines = Annotated[
    tuple[Line, ...], BeforeValidator(kinds.one_or_more), WithJsonSchema(schema.one_or_many(_LINE))
]
Name = Annotated[
    str,
    PlainValidator(kinds.name),
    _or_template({"anyOf": [schema.text(NAME_PATTERN, numbers=False), schema.whole(0)]}),
]
Variable = Annotated[str, PlainValidator(kinds.variable), _pattern(VARIABLE_PATTERN)]
Argument = Annotated[str, PlainValidator(kinds.argument), _pattern(ARGUMENT_PATTERN)]
Seconds = Annotated[
    float, PlainValidator(kinds.seconds), _or_template({"type": "number", "minimum": 0, "maximum": 1e7})
]
Benchmark = Annotated[
    str, PlainValidator(kinds.benchmark), _or_template({"enum": list(benchmarks.OF_SERVER)})
]
Runs = Annotated[
    int, PlainValidator(kinds.whole(*benchmarks.BOUNDS["runs"])), _whole(*benchmarks.BOUNDS["runs"])
]
Tokens = Annotated[
    int, PlainValidator(kinds.whole(*benchmarks.BOUNDS["tokens"])), _whole(*benchmarks.BOUNDS["tokens"])
]
Concurrency = Annotated[
    int,
    PlainValidator(kinds.whole(*benchmarks.BOUNDS["concurrency"])),
    _whole(*benchmarks.BOUNDS["concurrency"]),
]
_RATE: schema.Schema = {
    "type": "number",
    "minimum": benchmarks.RATES[0],
    "maximum": benchmarks.RATES[1],
}
_RUN_SECONDS: schema.Schema = {
    "type": "number",
    "minimum": benchmarks.SECONDS[0],
    "maximum": benchmarks.SECONDS[1],
}
_COUNT = "[1-9][0-9]{0,5}"
_LENGTHS = schema.text(
    rf"^(?:{_COUNT}(?:-{_COUNT})?|(?:log)?normal:{_COUNT}:[0-9]{{1,6}}(?::{_COUNT}-{_COUNT})?){_END}",
    numbers=False,
)
_LIMIT = r"(?:ttft|tpot|e2e)=[0-9]{1,6}(?:\.[0-9]{1,6})?"


def _lengths(least: int) -> WithJsonSchema:
    return _or_template({"anyOf": [schema.whole(least, benchmarks.lengths.MOST), _LENGTHS]})


Rates = Annotated[
    tuple[float, ...],
    PlainValidator(kinds.rates),
    PlainSerializer(list),
    WithJsonSchema(schema.template_or(_RATE, {"type": "array", "items": _RATE, "minItems": 1})),
]
Arrivals = Annotated[
    str, PlainValidator(kinds.parameter("arrivals")), _or_template({"enum": list(benchmarks.ARRIVALS)})
]
Requests = Annotated[
    int,
    PlainValidator(kinds.whole(*benchmarks.BOUNDS["requests"])),
    _whole(*benchmarks.BOUNDS["requests"]),
]
RunSeconds = Annotated[float, PlainValidator(kinds.parameter("seconds")), _or_template(_RUN_SECONDS)]
InputLengths = Annotated[str, PlainValidator(kinds.parameter("input")), _lengths(1)]
OutputLengths = Annotated[str, PlainValidator(kinds.parameter("output")), _lengths(2)]
Seed = Annotated[
    int, PlainValidator(kinds.whole(*benchmarks.BOUNDS["seed"])), _whole(*benchmarks.BOUNDS["seed"])
]
Goodput = Annotated[
    str,
    PlainValidator(kinds.parameter("goodput")),
    _or_template(schema.text(rf"^{_LIMIT}(?:,{_LIMIT})*{_END}", numbers=False)),
]
Port = Annotated[int, PlainValidator(kinds.whole(1, 65535)), _whole(1, 65535)]
Address = Annotated[str, PlainValidator(kinds.address), _pattern(_ADDRESS)]
Model = Annotated[str, PlainValidator(kinds.model), _pattern(_MODEL)]
Absolute = Annotated[str, PlainValidator(kinds.absolute), _pattern(f"^/{_SIGN}*{_END}")]
Program = Annotated[str, PlainValidator(kinds.program), _pattern(_PROGRAM)]
Command = Annotated[str, PlainValidator(kinds.command), _pattern(_COMMAND)]
Protected = Annotated[str, PlainValidator(kinds.protected), _or_template(_LINE)]
Gpus = Annotated[
    tuple[int | str, ...], PlainValidator(kinds.gpus), PlainSerializer(list), WithJsonSchema(_GPUS)
]
Key = Annotated[
    SecretRef, PlainValidator(kinds.secret), PlainSerializer(kinds.plain_secret), WithJsonSchema(_SECRET)
]
Value = Annotated[
    str | SecretRef,
    PlainValidator(kinds.text_or_secret),
    PlainSerializer(kinds.plain_secret),
    WithJsonSchema(_VALUE),
]
ArgumentValue = Annotated[
    Any,
    PlainValidator(kinds.argument_value),
    WithJsonSchema({"anyOf": [*_VALUE["anyOf"], {"type": "array", "items": _VALUE}, {"type": "object"}]}),
]
Arguments = Annotated[dict[Argument, ArgumentValue], BeforeValidator(kinds.arguments)]
