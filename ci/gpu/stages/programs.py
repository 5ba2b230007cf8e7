# SPDX-License-Identifier: Apache-2.0
"""How the stages run programs: with time limits, with the pack's libraries and those of the machine,
and with everything that they print in one log."""
import concurrent.futures
import csv
import ctypes
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from . import libraries

LOG_BYTES = 200_000  # of one program's output, so that the whole log stays small
AT_ONCE = max(1, (os.cpu_count() or 2) // 2)  # checks that share the machine


class OutOfTime(Exception):
    pass


class Interrupted(BaseException):
    """Raised when a signal stops the visit. No stage catches it."""


class Outcome:
    """The end of a program. `status` is None if it was ended because its time was used up."""

    def __init__(self, status, text, seconds):
        self.status, self.text, self.seconds = status, text, seconds

    def last_line(self):
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else "it printed nothing"

    def why(self):
        return f"ended after {self.seconds:.0f} s, its limit" if self.status is None else (
            f"status {self.status}: {self.last_line()}")

    def json_lines(self):
        found = []
        for line in self.text.splitlines():
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    pass
        return found


class Run(Outcome):
    """A `shardmark run` with its report and losses, if it wrote them."""

    def __init__(self, outcome, out):
        super().__init__(outcome.status, outcome.text, outcome.seconds)
        self.report, self.losses = {}, []
        if (out / "report.json").exists():
            self.report = json.loads((out / "report.json").read_text())
        if (out / "losses.csv").exists():
            with open(out / "losses.csv") as file:
                self.losses = list(csv.DictReader(file))

    def valid(self):
        return self.status == 0 and self.report.get("result") == "VALID"

    def why(self):
        reasons = self.report.get("invalid_reasons")
        return reasons[:300] if self.status == 1 and reasons else super().why()

    def tokens_per_s(self):
        return self.report["fom"]["value"]

    def state_hash(self):
        return self.report.get("state_hash")


class Visit:
    def __init__(self, root, book, models, total_s, scale):
        self.root, self.book, self.models, self.scale = pathlib.Path(root), book, models, scale
        self.pack = json.loads((self.root / "pack.json").read_text())
        self.on_gpu = self.pack["device"] != "host"
        self.ends_at = None if total_s is None else time.monotonic() + total_s
        self.stage_ends_at = None
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="shardmark-visit-"))
        (self.work / "tests").symlink_to(self.root / "tests")  # test_nn reads tests/data
        self.found = libraries.find(self.pack["from_machine"])
        path = [str(self.root / "lib")] + sorted({str(p.parent) for p in self.found.values() if p})
        path += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
        self.environment = dict(os.environ, LD_LIBRARY_PATH=":".join(path), OMP_NUM_THREADS="1")
        self.runs, self.decks = itertools.count(1), itertools.count(1)
        self.log_lock = threading.Lock()

    def __del__(self):
        shutil.rmtree(getattr(self, "work", ""), ignore_errors=True)

    def begin(self, limit_s):
        self.stage_ends_at = time.monotonic() + limit_s * self.scale
        if self.ends_at is not None:
            self.stage_ends_at = min(self.stage_ends_at, self.ends_at)

    def left_s(self):
        return self.stage_ends_at - time.monotonic()

    # ---- programs ------------------------------------------------------------------------------

    def program(self, name):
        return str(self.root / "bin" / name)

    def command(self, *words, sets=()):
        """A command of `shardmark`, with these changes to its deck."""
        return [self.program("shardmark"), *words] + set_options(sets)

    def has(self, name):
        return os.access(self.program(name), os.X_OK)

    def tool(self, name):
        """The path of a tool of the machine, or None."""
        beside = [f"{p}/bin" for p in libraries.toolkits()]
        return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", "")] + beside))

    def execute(self, command, limit_s=60, environment=None, own_libraries=True):
        """Runs a program in a process group of its own. Raises OutOfTime if the stage has no time
        left, before the start or at the end of the stage."""
        limit_s *= self.scale
        left = self.left_s()
        if left <= 1:
            raise OutOfTime(f"no time was left for {shown(command, self.root)}")
        ours = self.environment if own_libraries else dict(os.environ)
        start = time.monotonic()
        with tempfile.TemporaryFile(dir=self.work) as output:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                     cwd=self.work, env={**ours, **(environment or {})},
                                     start_new_session=True, preexec_fn=die_with_the_visit)
            try:
                status = child.wait(timeout=min(limit_s, left))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                end_group(child)
            output.seek(0)
            text = output.read().decode(errors="replace")
        outcome = Outcome(status, text, time.monotonic() - start)
        self._log(command, outcome)
        if status is None and limit_s > left:
            raise OutOfTime(f"the stage's time ended within {shown(command, self.root)}")
        return outcome

    def _log(self, command, outcome):
        text = outcome.text
        if len(text) > LOG_BYTES:
            text = text[:LOG_BYTES // 2] + "\n[...]\n" + text[-LOG_BYTES // 2:]
        with self.log_lock, open(self.book.folder / "log.txt", "a") as log:
            log.write(f"\n==== stage {self.book.stage}: {shown(command, self.root)}\n{text}\n"
                      f"==== status {outcome.status} after {outcome.seconds:.1f} s\n")

    def mpi(self, ranks, command, per_rank=None):
        """The command on several ranks of this machine. `per_rank(rank)` gives variables that each
        rank has for itself. One rank needs no launcher."""
        if ranks == 1:
            return command
        launch = [self.program("mpiexec")]
        if per_rank is None:
            return launch + ["-n", str(ranks)] + command
        for rank in range(ranks):
            launch += [":"] if rank else []
            launch += ["-n", "1"]
            for name, value in per_rank(rank).items():
                launch += ["-env", name, value]
            launch += command
        return launch

    def deck(self, name):
        return str(self.root / "inputs" / f"{name}.json")

    def write_deck(self, deck):
        path = self.work / f"{deck['name']}-{next(self.decks)}.json"
        path.write_text(json.dumps(deck))
        return str(path)

    def shardmark(self, deck, sets=(), ranks=1, limit_s=90, environment=None, per_rank=None):
        out = self.work / f"run-{next(self.runs)}"
        command = self.command("run", deck, "--out", str(out), sets=sets)
        return Run(self.execute(self.mpi(ranks, command, per_rank), limit_s, environment), out)

    def together(self, checks):
        """Runs checks that measure no time, several at once. The first that raises ends the stage,
        after those that were started."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE if self.on_gpu else 1) as pool:
            for running in [pool.submit(check) for check in checks]:
                running.result()

    def peer(self, script, *arguments, limit_s=120):
        """A script of peers/ under this Python, with the machine's own libraries."""
        device = [] if self.on_gpu else ["--device", "cpu"]
        return self.execute([sys.executable, str(self.root / "peers" / script), *arguments, *device],
                            limit_s, own_libraries=False)

    def peer_line(self, what, script, *arguments, limit_s=120):
        """The last line of JSON of a peer. None, and `what` is skipped, if it cannot say it."""
        o = self.peer(script, *arguments, limit_s=limit_s)
        if o.status == 0 and o.json_lines():
            return o.json_lines()[-1]
        return self.skip(what, f"PyTorch: {o.why()}")

    # ---- results -------------------------------------------------------------------------------

    def check(self, what, good, text=""):
        self.book.note("pass" if good else "fail", what, "" if good else text)
        return good

    def check_valid(self, what, run):
        return self.check(what, run.valid(), run.why())

    def figure(self, what, value, unit="", target=None, text="", **more):
        target = target if self.on_gpu else None  # a host's figures say nothing of a GPU
        self.book.note("figure", what, text, value=value, unit=unit, target=target, **more)

    def skip(self, what, why):
        self.book.note("skip", what, why)


def set_options(sets):
    return [word for key_value in sets for word in ("--set", key_value)]


def die_with_the_visit():
    """In the child: a visit that is killed leaves nothing running that would hold the GPU."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def end_group(child):
    """Ends a program and what it left running; a launcher gets the time to end its ranks."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=3)
        except subprocess.TimeoutExpired:
            pass
    child.wait()


def shown(command, root):
    return " ".join(str(part).replace(str(root) + "/", "") for part in command)[:300]
