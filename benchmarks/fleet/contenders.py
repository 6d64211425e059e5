"""What is run for each work: Stoker first, then its rivals, then the floor."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.hosts import Fleet, Place
from benchmarks.fleet.measure import Contender
from benchmarks.fleet.rivals import Rivals

FORKS = 50
SMALL_FILES = 2000
BIG_MIB = 200
_HERE = Path(__file__).parent
_INV = [sys.executable, "-m", "invoke"]


class Contenders:
    """Command lines against a fleet; the files that the rivals read are written beside its project.

    Args:
        fleet: The hosts.
        rivals: What there is to compare with.
    """

    def __init__(self, fleet: Fleet, rivals: Rivals) -> None:
        self._fleet = fleet
        self._rivals = rivals
        self._folder = fleet.folder

    def once(self, hosts: int) -> list[Contender]:
        """``true``, once on each host."""
        chosen = self._chosen(hosts)
        exec_ = [*_INV, "exec", "--host", f"bench[0:{hosts - 1}]", "--cmd", "true", "--forks", str(FORKS)]
        return [
            Contender("stoker", exec_),
            self._fabric(chosen, 1, 1.1),
            self._pyinfra(chosen, 1, 1.4),
            self._ssh("ssh, xargs -P50", chosen, 1, 1.5),
            self._ansible("ansible raw", chosen, ["-m", "raw", "-a", "true"], 6),
            self._pssh(chosen, 1),
            self._floor(chosen, 1),
        ]

    def ten(self, hosts: int, *, fabric: float, pyinfra: float) -> list[Contender]:
        """Ten steps, one after the other on all hosts."""
        chosen = self._chosen(hosts)
        return [
            self._play(hosts),
            self._fabric(chosen, 10, fabric),
            self._pyinfra(chosen, 10, pyinfra),
            self._ssh("ssh, ControlMaster", chosen, 10, 3),
            self._pssh(chosen, 10),
            self._floor(chosen, 10),
        ]

    def far(self, hosts: int) -> list[Contender]:
        """Ten steps where each round trip takes its time."""
        chosen = self._chosen(hosts)
        return [
            self._play(hosts),
            self._fabric(chosen, 10, 1.9),
            self._pyinfra(chosen, 10, 4),
            self._pssh(chosen, 10),
            self._floor(chosen, 10),
        ]

    def ten_by_ansible(self, hosts: int) -> list[Contender]:
        """Ten steps, beside those that do them as Ansible's modules."""
        chosen = self._chosen(hosts)
        return [
            self._play(hosts),
            self._ansible("ansible command, pipelined", chosen, None, 25),
            self._ansible("mitogen", chosen, None, 12, mitogen=True),
        ]

    def big(self) -> list[Contender]:
        """One file of 200 MiB from a host."""
        source = self._folder / "home" / "big"
        if not source.exists():
            with source.open("wb") as file:
                for block in range(BIG_MIB):
                    file.write(bytes([block % 251]) * (1 << 20))
        to = self._folder / "to"
        scp = ["scp", "-q", "-F", "ssh_config", "-c", "aes128-gcm@openssh.com"]
        return [
            self._get(source, to),
            self._system("scp", [*scp, f"{self._fleet.places[0].address}:{source}", str(to)], 0.95, to),
        ]

    def small(self) -> list[Contender]:
        """2,000 small files from a host."""
        source = self._folder / "home" / "small"
        if not source.exists():
            for number in range(SMALL_FILES):
                path = source / f"{number % 20}" / f"file{number}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"%d\n" % number * (50 + number % 400))
        to = self._folder / "to"
        rsync = ["rsync", "-a", "-e", "ssh -F ssh_config -c aes128-gcm@openssh.com"]
        scp = ["scp", "-q", "-r", "-F", "ssh_config", "-c", "aes128-gcm@openssh.com"]
        far = f"{self._fleet.places[0].address}:{source}"
        return [
            self._get(source, to),
            self._system("rsync", [*rsync, far, f"{to}/"], 1.2, to),
            self._system("scp", [*scp, far, str(to)], None, to),
        ]

    def group(self, hosts: int) -> Contender:
        """Stoker alone on so many hosts."""
        return self.once(hosts)[0]

    def _chosen(self, hosts: int) -> Sequence[Place]:
        return self._fleet.places[:hosts]

    def _play(self, hosts: int) -> Contender:
        limit = f"bench[0:{hosts - 1}]"
        return Contender("stoker", [*_INV, "play", "ten.yml", "--limit", limit, "--forks", str(FORKS)])

    def _get(self, source: Path, to: Path) -> Contender:
        host = self._fleet.places[0].address
        argv = [*_INV, "get", "--host", host, "--src", str(source), "--dest", str(to)]
        return Contender("stoker", argv, prepare=(to,))

    def _system(self, name: str, argv: list[str], least: float | None, to: Path) -> Contender:
        """A program of the distribution, into a folder that it finds there."""
        line = f"mkdir {shlex.quote(str(to))} && exec {shlex.join(argv)}"
        missing = self._rivals.missing(name)
        return Contender(name, ["sh", "-c", line], least=least, why_not=missing, prepare=(to,))

    def _script(self, name: str, script: str, needs: str, args: list[str], least: float | None) -> Contender:
        argv = [self._rivals.python, str(_HERE / script), *args]
        return Contender(name, argv, least=least, why_not=self._rivals.missing(needs))

    def _fabric(self, chosen: Sequence[Place], commands: int, least: float) -> Contender:
        args = [",".join(map(str, chosen)), "key", str(commands)]
        return self._script("Fabric ThreadingGroup", "rival_fabric.py", "fabric", args, least)

    def _pssh(self, chosen: Sequence[Place], commands: int) -> Contender:
        args = [",".join(map(str, chosen)), "key", str(commands)]
        return self._script("parallel-ssh", "rival_pssh.py", "parallel-ssh", args, None)

    def _floor(self, chosen: Sequence[Place], commands: int) -> Contender:
        args = [",".join(map(str, chosen)), "key", "known_hosts", str(commands)]
        return Contender("floor: bare paramiko", [sys.executable, str(_HERE / "floor.py"), *args], least=0.8)

    def _ssh(self, name: str, chosen: Sequence[Place], commands: int, least: float) -> Contender:
        """One ``ssh`` a command; with ControlMaster they share a connection that the first one makes."""
        hosts = self._folder / f"hosts{len(chosen)}"
        hosts.write_text("".join(f"{place.address}\n" for place in chosen))
        control = self._folder / "cm"
        shared = "-o ControlMaster=auto -o ControlPersist=60 -o ControlPath=cm/%h" if commands > 1 else ""
        ssh = f"ssh -F ssh_config -o KexAlgorithms=curve25519-sha256 {shared} {{}} true </dev/null"
        loop = f"i=0; while [ $i -lt {commands} ]; do {ssh} || exit 255; i=$((i+1)); done"
        line = f"mkdir cm; xargs -P {FORKS} -I{{}} sh -c '{loop}' < {hosts}"
        return Contender(name, ["sh", "-c", line], least=least, prepare=(control,))

    def _pyinfra(self, chosen: Sequence[Place], commands: int, least: float) -> Contender:
        hosts = [(place.address, {"ssh_port": place.port}) for place in chosen]
        given = {
            "ssh_user": chosen[0].user,
            "ssh_key": "key",
            "ssh_known_hosts_file": str(self._folder / "known_hosts"),
            "ssh_strict_host_key_checking": "yes",
            "ssh_look_for_keys": False,
            "ssh_allow_agent": False,
        }
        (self._folder / "pyinfra_hosts.py").write_text(f"hosts = ({hosts!r}, {given!r})\n")
        steps = [f"server.shell(name='t{number}', commands=['true'])" for number in range(10)]
        deploy = "from pyinfra.operations import server\n" + "\n".join(steps) + "\n"
        (self._folder / "pyinfra_ten.py").write_text(deploy)
        what = ["exec", "--", "true"] if commands == 1 else ["pyinfra_ten.py"]
        argv = [self._rivals.program("pyinfra"), "-y", "pyinfra_hosts.py", *what]
        return Contender("pyinfra", argv, least=least, why_not=self._rivals.missing("pyinfra"))

    def _ansible(
        self,
        name: str,
        chosen: Sequence[Place],
        adhoc: list[str] | None,
        least: float,
        *,
        mitogen: bool = False,
    ) -> Contender:
        """Ansible with a module for each host, or with the ten steps."""
        key, config = self._folder / "key", self._folder / f"{name.split()[0]}.cfg"
        lines = [f"{place.address} ansible_port={place.port}" for place in chosen]
        lines += ["[all:vars]", f"ansible_user={chosen[0].user}", f"ansible_ssh_private_key_file={key}"]
        lines += ["ansible_python_interpreter=/usr/bin/python3"]
        lines += [f"ansible_ssh_common_args='-F {self._folder}/ssh_config'"]
        (self._folder / "ansible.ini").write_text("[all]\n" + "\n".join(lines) + "\n")
        (self._folder / "ansible_ten.yml").write_text(
            "- hosts: all\n  gather_facts: false\n  tasks:\n" + "    - command: 'true'\n" * 10
        )
        settings = ["[defaults]", "inventory=ansible.ini", f"forks={FORKS}", "gathering=explicit"]
        if mitogen:
            settings += [f"strategy_plugins={self._rivals.mitogen}", "strategy=mitogen_linear"]
        settings += ["[ssh_connection]", "pipelining=True", f"control_path_dir={self._folder}/cp"]
        config.write_text("\n".join(settings) + "\n")
        program = "ansible" if adhoc else "ansible-playbook"
        argv = [self._rivals.program(program), *(["all", *adhoc] if adhoc else ["ansible_ten.yml"])]
        env = {"ANSIBLE_CONFIG": str(config), "ANSIBLE_HOME": str(self._folder / "ansible")}
        env |= {"LC_ALL": "C.UTF-8", "ANSIBLE_DEPRECATION_WARNINGS": "False"}
        env |= {"PATH": f"{Path(self._rivals.python).parent}:/usr/bin:/bin"}
        missing = self._rivals.missing("mitogen" if mitogen else "ansible-core")
        return Contender(name, argv, env, least, missing, prepare=(self._folder / "cp",))
