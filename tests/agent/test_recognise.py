"""Which process is what: by structure, never by a word."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from stoker import engines
from stoker.agent.context import AgentError
from stoker.agent.processes import procs, recognise
from stoker.agent.processes.recognise import Invocation, Protected, Recogniser
from tests.agent.conftest import ENGINE, Host

ALL = Recogniser(engine.to_wire() for engine in engines.all_engines())
SLEEP = "import signal; print('up', flush=True); signal.pause()"


def process(argv: Sequence[str], comm: str = "python3", exe: str = "/usr/bin/python3.11") -> procs.Process:
    """A process as a snapshot has it."""
    zeros = " ".join("0" for _ in range(18))
    made = procs.Process(4_000_000, f"4000000 ({comm}) S {zeros} 77 0 0".encode())
    made._argv, made._exe, made._uid = list(argv), exe, 1000
    return made


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/opt/v/bin/python3", "-B", "v/bin/vllm", "serve", "m"], ("vllm", "", "", ("serve", "m"), True)),
        (
            ["python", "-m", "sglang.launch_server", "--tp", "8"],
            ("", "sglang.launch_server", "", ("--tp", "8"), True),
        ),
        (["python3.11", "-ISum", "a.b", "c"], ("", "a.b", "", ("c",), True)),
        (["python3", "-ma.b"], ("", "a.b", "", (), True)),
        (["python3", "-c", "import vllm", "serve"], ("", "", "import vllm", ("serve",), True)),
        (["python3", "-W", "ignore", "-X", "dev", "x.py", "-m", "y"], ("x.py", "", "", ("-m", "y"), True)),
        (["python3", "-Wignore", "x.py"], ("x.py", "", "", (), True)),
        (["python3", "--check-hash-based-pycs", "never", "x.py"], ("x.py", "", "", (), True)),
        (["python3"], ("python3", "", "", (), True)),
        (["-bash"], ("bash", "", "", (), False)),
        (["/usr/bin/llama-server", "-m", "x.gguf"], ("llama-server", "", "", ("-m", "x.gguf"), False)),
        ([], ("", "", "", (), False)),
    ],
)
def test_a_command_line_is_taken_apart_as_python_does(argv: list[str], expected: tuple[object, ...]) -> None:
    assert tuple(recognise.invocation(argv)) == expected


@pytest.mark.parametrize(
    ("argv", "engine"),
    [
        (["python", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        (["/v/bin/python", "/v/bin/sglang", "serve", "m"], "sglang"),
        (["/opt/engines/v-vllm/bin/python3", "v-vllm/bin/vllm", "serve", "models/tiny"], "vllm"),
        (["python3", "-u", "-m", "vllm.entrypoints.openai.api_server"], "vllm"),
        (["/opt/llama/llama-server", "--port", "8080"], "llamacpp"),
        (["VLLM::EngineCore"], "vllm"),
        (["VLLM::Worker_TP1"], "vllm"),
        (["sglang::scheduler_TP0"], "sglang"),
        (["sglang::detokenizer"], "sglang"),
    ],
)
def test_an_engine_is_recognised_by_its_structure_or_its_title(argv: list[str], engine: str) -> None:
    assert ALL.engine(process(argv)) == engine


@pytest.mark.parametrize(
    "argv",
    [
        ["tmux", "new", "-d", "python3 -m sglang.launch_server --tp 8"],
        ["tmux", "new", "-d", "python3", "-m", "sglang.launch_server"],
        ["bash", "-c", "vllm serve models/tiny"],
        ["python3", "/data/sglang/prepare.py"],
        ["python3", "train.py", "--out", "/data/vllm", "serve"],
        ["python3", "-m", "pytest", "-m", "sglang.launch_server"],
        ["python3", "-c", "import os", "-m", "sglang.launch_server"],
        ["vim", "sglang.launch_server"],
        ["vllm", "bench", "serve"],
        ["grep", "VLLM::EngineCore"],
        ["xVLLM::EngineCore"],
        ["llama-server-proxy"],
    ],
)
def test_a_word_in_a_command_line_makes_no_engine(argv: list[str]) -> None:
    assert ALL.engine(process(argv, comm="x", exe="/bin/x")) == ""


def test_a_title_that_is_no_expression_is_a_bad_request() -> None:
    with pytest.raises(AgentError) as caught:
        Recogniser([{**ENGINE.to_wire(), "titles": ["("]}])
    assert caught.value.kind == "bad-request"


@pytest.mark.parametrize(
    ("argv", "comm", "exe"),
    [
        (["sshd: root@pts/0"], "sshd", ""),
        (["/usr/sbin/sshd", "-D"], "sshd", "/usr/sbin/sshd"),
        (["-zsh"], "zsh", "/usr/bin/zsh"),
        (["tmux", "new", "-d"], "tmux: server", "/usr/bin/tmux"),
        (["SCREEN", "-S", "x"], "screen", "/usr/bin/screen"),
        (["nvidia-cuda-mps-server"], "nvidia-cuda-mps", "/usr/bin/nvidia-cuda-mps-server"),
        (["vim", "x.py"], "vim", "/usr/bin/vim.basic"),
        (["/lib/systemd/systemd", "--user"], "systemd", "/usr/lib/systemd/systemd"),
    ],
)
def test_what_logins_and_hosts_live_on_is_never_ended(argv: list[str], comm: str, exe: str) -> None:
    assert recognise.is_never(process(argv, comm, exe))


def test_a_python_of_any_name_is_a_python(host: Host) -> None:
    pid = host.python(f"from setproctitle import setproctitle; setproctitle('trainer'); {SLEEP}")
    found = procs.look(pid)
    assert found is not None
    assert recognise.is_python(found)
    assert not recognise.is_python(process(["sleep", "60"], "sleep", "/usr/bin/sleep"))


def test_helpers_of_multiprocessing_are_known() -> None:
    tracker = "from multiprocessing.resource_tracker import main;main(32)"
    assert recognise.is_helper(process([sys.executable, "-B", "-c", tracker]))
    assert not recognise.is_helper(process([sys.executable, "-c", "import multiprocessing"]))


@pytest.mark.parametrize(
    ("entries", "covered"),
    [
        (["jupyter-lab"], True),
        (["jupyter"], False),
        (["cmd:--port[= ]8888"], True),
        (["cmd:--port[= ]8889"], False),
        ([], False),
    ],
)
def test_protect_means_exact_names_or_expressions(entries: list[str], covered: bool) -> None:
    notebook = process(["/usr/bin/python3", "/usr/bin/jupyter-lab", "--port=8888"], "jupyter-lab")
    assert Protected(entries).covers(notebook) is covered


def test_protect_knows_a_name_that_the_kernel_cut() -> None:
    assert Protected(["my-long-trainer-name"]).covers(process(["x"], "my-long-trainer"))


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["x", "--port", "1", "--port=2"], "2"),
        (["x", "--port=", "y"], ""),
        (["x", "--port"], ""),
        (["x", "--portal", "3"], ""),
    ],
)
def test_the_last_value_of_a_flag_counts(argv: list[str], value: str) -> None:
    assert recognise.flag_value(argv, "--port") == value


def test_an_invocation_of_nothing_is_empty() -> None:
    assert recognise.invocation([]) == Invocation("", "", "", (), False)
