"""What was typed: where Invoke knows only that it cannot read it, we say what is wrong and what to type.

``inv`` is Invoke's own program. It has no place for this, so that the one that runs becomes ``TypedProgram``
when a project's ``tasks.py`` mounts our commands; ``stoker`` is one from its beginning.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import NoReturn

from invoke.exceptions import Exit, ParseError
from invoke.parser.context import ParserContext
from invoke.program import Program

from stoker import __version__
from stoker.errors import EXIT_INPUT, InputError, nearest

_START = """\
Restart, prove, measure and explain language-model servers on GPU hosts.

  {inv} demo                 the story, live, on a simulated host
  {inv} init FOLDER          a new project
  {inv} hosts                its inventory, as resolved
  {inv} restart --host NAME  launch as its profile says, and prove it
  {inv} status               what runs
  {inv} bench --host NAME    measure it, and judge

  {inv} --list               every command
  {inv} --help COMMAND       what it does, and its flags
"""


class TypedProgram(Program):
    """Invoke's program, with messages that name the mistake and what to do next."""

    def parse_tasks(self) -> None:
        """Read commands and their flags.

        Raises:
            Exit: They cannot be read (2), or help was asked for in a way that Invoke takes for a value (0).
        """
        try:
            super().parse_tasks()
        except ParseError as error:
            self._answer_help(error)
            if error.context is not None:
                self._look_at_positionals(error.context)
            refuse(_told(error, self._names(), self._flags_of(error.context)))
        for context in self.tasks:
            self._look_at_positionals(context)
            self._look_at_lists(context)
        asked = self.args.help.value
        if isinstance(asked, str) and asked not in self._names():
            refuse(_no_command(asked, self._names()))

    def parse_cleanup(self) -> None:
        """Answer what needs no command (help, lists); whoever reads it may have seen enough."""
        try:
            super().parse_cleanup()
        except BrokenPipeError:
            from stoker.tasks.command import EXIT_BROKEN_PIPE, nobody_reads

            nobody_reads()
            sys.exit(EXIT_BROKEN_PIPE)

    def no_tasks_given(self) -> None:
        """Say where to begin; what Invoke tells here are its own flags."""
        sys.stdout.write(_START.format(inv=spelled()))
        raise Exit(code=0)

    def print_help(self) -> None:
        """``stoker --help``: where to begin, before Invoke's own flags."""
        sys.stdout.write(_START.format(inv=spelled()) + "\n")
        super().print_help()

    def print_task_help(self, name: str) -> None:
        """Say what a command does, and how it is typed: Invoke leaves out the words that it demands."""
        context = self.parser.contexts[name]
        words = [_upper(argument.name) for argument in context.positional_args]
        flags = ["[--flags]"] if context.help_tuples() else []
        print("Usage:", spelled(), name, *words, *flags, end="\n\n")
        for line in (inspect.getdoc(self.collection[name]) or "").splitlines():
            print(textwrap.fill(line, 78, initial_indent="  ", subsequent_indent="  "))
        if context.help_tuples():
            print("\nFlags:")
            self.print_columns(context.help_tuples())

    def _answer_help(self, error: ParseError) -> None:
        """``inv help [COMMAND]``, as many programs have it."""
        words = list(self.core.unparsed)
        if _token(error) != "help" or words[:1] != ["help"]:
            return
        if len(words) == 1:
            self.no_tasks_given()
        if words[1] in self._names():
            self.print_task_help(words[1])
            raise Exit(code=0)

    def _look_at_positionals(self, context: ParserContext) -> None:
        """A flag where a command's first word is expected is no such word: Invoke takes it for one."""
        for argument in context.positional_args:
            value = argument.value
            if value in ("-h", "--help"):
                self.print_task_help(str(context.name))
                raise Exit(code=0)
            if isinstance(value, str) and value.startswith("-") and value != "-":
                refuse(_no_flag(value, str(context.name), self._flags_of(context)))

    def _look_at_lists(self, context: ParserContext) -> None:
        """A flag that may be given several times, and was given nothing: Invoke takes it for none at all."""
        words = self.argv[1:]
        for word, after in zip(words, [*words[1:], "--"], strict=True):
            if word == "--":
                return
            argument = context.flags.get(word)
            if argument is not None and argument.kind is list and (after == "--" or after in context.flags):
                refuse(
                    InputError(
                        f"{word} needs a value",
                        where=str(context.name),
                        next_step=_help_of(str(context.name)),
                    )
                )

    def _names(self) -> set[str]:
        return set(self.parser.contexts) | set(self.parser.contexts.aliases)

    def _flags_of(self, context: ParserContext | None) -> set[str]:
        return set() if context is None else {flag for flag in context.flags if flag.startswith("--")}


def serve_running_program() -> None:
    """Make the ``inv`` that loads a ``tasks.py`` now a ``TypedProgram``; somebody's own program stays."""
    frame = sys._getframe()
    while (above := frame.f_back) is not None:
        frame = above
        program = frame.f_locals.get("self")
        if type(program) is Program:
            program.__class__ = TypedProgram
            return


def spelled() -> str:
    """The program's name as typed: ``inv``, ``stoker``."""
    name = Path(sys.argv[0]).name
    return name if name in ("inv", "invoke", "stoker") else "inv"


def refuse(error: InputError, text: str = "") -> NoReturn:
    """End before any command has begun, as a command would that was given wrong input.

    Args:
        error: What is wrong, for ``--json``.
        text: The same for people, where that is more than one message.

    Raises:
        Exit: Always.
    """
    if "--json" in sys.argv[1:]:
        from stoker.tasks.outcomes import error_data

        name = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        whole = {"stoker": __version__, "command": name, "exit_code": EXIT_INPUT, "error": error_data(error)}
        json.dump(whole, sys.stdout, indent=2)
        sys.stdout.write("\n")
    lines = [f"error {error}", *(f"  │ {line}" for line in error.evidence), f"  next: {error.next_step}"]
    raise Exit(text or "\n".join(lines), code=EXIT_INPUT)


def _token(error: ParseError) -> str | None:
    """The word that Invoke had no idea of; None where something else is wrong."""
    found = re.fullmatch(r"No idea what (.*) is!", str(error), re.DOTALL)
    return str(ast.literal_eval(found[1])) if found else None


def _upper(name: str | None) -> str:
    """An argument as it stands in a usage: ``run_id`` is ``RUN-ID``."""
    return (name or "").upper().replace("_", "-")


def _told(error: ParseError, names: set[str], flags: set[str]) -> InputError:
    """Invoke's message in words that help: which command, which flag, what to type."""
    context = error.context
    name = str(context.name) if context is not None and context.name else ""
    word = _token(error)
    if word and word.startswith("-"):
        return _no_flag(word, name, flags)
    if word is not None:
        return _no_word(word, name, names, flags) if name else _no_command(word, names)
    if context is not None and context.missing_positional_args:
        return _too_few(context)
    if flag := re.match(r"Flag <Argument: ([\w-]+).* needed value", str(error)):
        said = flag[1].replace("_", "-")
        return InputError(f"--{said} needs a value", where=name, next_step=_help_of(name))
    return InputError(str(error), where=name, next_step=_help_of(name))


def _too_few(context: ParserContext) -> InputError:
    """A command without the words that it demands."""
    missing = context.missing_positional_args
    words = " ".join(_upper(argument.name) for argument in context.positional_args)
    typed = f"{spelled()} {context.name} {words}"
    return InputError(
        f"{context.name} needs {' and '.join(_upper(argument.name) for argument in missing)}",
        evidence=[f"{_upper(argument.name)}: {argument.help}" for argument in missing],
        next_step=f"{typed} ({spelled()} --help {context.name} shows its flags)",
    )


def _no_command(word: str, names: set[str]) -> InputError:
    """A word where a command should stand."""
    inside = sorted(name for name in names if name.endswith(f".{word}"))
    hint = f"did you mean {inside[0]!r}?" if inside else nearest(word, names)
    every = f"{spelled()} --list names every command"
    return InputError(
        f"there is no command {word!r}",
        next_step=f"{hint} ({every})" if hint.startswith("did") else every,
    )


def _no_flag(word: str, name: str, flags: set[str]) -> InputError:
    """A flag that the command does not have, or that stands before it."""
    if not name:
        after = f"a command's flags stand after it, as in {spelled()} status {word}"
        return InputError(f"there is no flag {word!r} before a command", next_step=after)
    hint = nearest(word, flags)
    close = hint.startswith(("did", "known"))
    return InputError(
        f"{name} has no flag {word!r}", next_step=f"{hint} ({_help_of(name)})" if close else _help_of(name)
    )


def _no_word(word: str, name: str, names: set[str], flags: set[str]) -> InputError:
    """A word after a command that takes none (more)."""
    near = nearest(word, {other for other in names if abs(len(other) - len(word)) < 3})
    flag = next((flag for flag in ("--cmd", "--src", "--host") if flag in flags), "")
    hint = f"did you mean {spelled()} {name} {flag} {shlex.quote(word)}?" if flag else ""
    if near.startswith("did"):
        hint = near.replace("mean", "mean the command")
    return InputError(
        f"{name} takes no word {word!r} here",
        next_step=f"{hint} ({_help_of(name)})" if hint else _help_of(name),
    )


def _help_of(name: str) -> str:
    return f"{spelled()} --help {name} shows its flags" if name else f"{spelled()} --list names every command"
