#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of ci/gpu/pack and ci/gpu/visit, tried without a GPU: the program of this build for the host
is packed, unpacked elsewhere, and visited in an empty environment whose tools (nvidia-smi, ncu,
compute-sanitizer, PyTorch's peers, the GPU's own programs) are stand-ins.

    visit_test.py BUILD_DIR MPIEXEC

* A pack holds all libraries that its programs need, and is not made again if nothing changed.
* All stages pass with good tools, in order, and their results are on the disk one by one.
* A tool that fails makes its check and the visit fail, and no other check.
* A program that hangs is ended at the stage's limit; the stages after it run; the visit fails.
* A visit that is killed keeps its results; the same command continues with the stage that was cut.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
STAND_INS = pathlib.Path(__file__).resolve().parent / "stand_ins"
BUILD, MPIEXEC = sys.argv[1:3]
if shutil.which("xz") is None:
    print("skipped: xz is missing, which ci/gpu/pack compresses with")
    sys.exit(77)
TOOLS = ("nvidia-smi", "ncu", "compute-sanitizer")
PROGRAMS = ("cuda_check", "nccl_info", "test_nn", "bench_products", "bench_attention",
            "bench_best_products")


class PackAndVisit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="visit_test-"))
        cls.pack(cls)
        cls.archive = cls.scratch / "pack/shardmark-gpu.tar.xz"
        subprocess.run(["tar", "xf", cls.archive], cwd=cls.scratch, check=True)
        cls.there = cls.scratch / "shardmark-gpu"
        shutil.rmtree(cls.scratch / "pack/shardmark-gpu")  # nothing may come from there
        bin_dir = cls.scratch / "bin"
        bin_dir.mkdir()
        for name in TOOLS:
            shutil.copy(STAND_INS / "tool", bin_dir / name)
        for name in PROGRAMS:
            shutil.copy(STAND_INS / "program", cls.there / "bin" / name)
        # A real torch would be slow, and is not everywhere.
        for name in ("train.py", "device.py"):
            shutil.copy(STAND_INS / "peer.py", cls.there / "peers" / name)
        torch = cls.scratch / "site/torch"
        torch.mkdir(parents=True)
        shutil.copy(STAND_INS / "torch.py", torch / "__init__.py")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def pack(self):
        environment = dict(os.environ, OUT=str(self.scratch / "pack"), MPIEXEC=MPIEXEC, XZ_OPT="-0")
        return subprocess.run([SOURCE / "ci/gpu/pack", "--host", BUILD], env=environment, check=True,
                              capture_output=True, text=True).stdout

    def start(self, out, *arguments, **variables):
        """A visit with nothing in its environment but a path, a home and what is said."""
        environment = {"PATH": f"{self.scratch}/bin:/usr/bin:/bin", "HOME": str(self.scratch),
                       "PYTHONPATH": str(self.scratch / "site"), **variables}
        with open(self.scratch / f"{out}.printed", "w") as printed:
            return subprocess.Popen([sys.executable, self.there / "visit", "--out",
                                     self.scratch / out, *arguments], env=environment,
                                    cwd=self.scratch, stdout=printed, stderr=subprocess.STDOUT)

    def visit(self, out, *arguments, **variables):
        status = self.start(out, *arguments, **variables).wait(timeout=500)
        self.text = (self.scratch / f"{out}.printed").read_text()
        self.lines = self.results(out)
        return status

    def results(self, out):
        path = self.scratch / out / "results.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, state):
        return [line["what"] for line in self.lines if line["state"] == state]

    def summary(self, out):
        return (self.scratch / out / "summary.txt").read_text()

    def test_a_pack_is_not_made_again_and_holds_all_libraries(self):
        before = self.archive.stat()
        self.assertIn("nothing changed", self.pack())
        self.assertEqual(self.archive.stat().st_mtime_ns, before.st_mtime_ns)
        ldd = subprocess.run(["ldd", self.there / "bin/shardmark"], capture_output=True, text=True,
                             env={"LD_LIBRARY_PATH": str(self.there / "lib")}).stdout
        for line in ldd.splitlines():
            if "libmpi" in line or "hdf5" in line or "dnnl" in line or "stdc++" in line:
                self.assertIn(str(self.there / "lib"), line)
        self.assertLessEqual(before.st_size, 60 << 20)

    def test_all_stages_pass_in_order(self):
        status = self.visit("good")
        self.assertEqual(status, 0, self.text)
        self.assertEqual([line["stage"] for line in self.lines if line["state"] == "begun"],
                         [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual([line["stage"] for line in self.lines],
                         sorted(line["stage"] for line in self.lines))
        passed = self.of("pass")
        for what in ("cuda_check", "a run at stage 3", "kernels, layers and models (test_nn)",
                     "reference 1 in fp16", "fault nan is noticed", "two ranks over shm at stage 3",
                     "gpt2-1.5b: PyTorch compiled has the same parameters", "gpt2-1.5b: bench_products",
                     "llama-1b: bench_best_products", "memcheck of cuda_check",
                     "racecheck of a run at stage 3", "ncu's closer look at other_kernel",
                     "every product has a time", "gpt2-1.5b: predict"):
            self.assertIn(what, passed)
        figures = {line["what"]: line for line in self.lines if line["state"] == "figure"}
        # ncu's stand-in has two kernels: 3 launches of 2 us and one of 4000 ns.
        self.assertAlmostEqual(figures["ncu attention_tensor"]["value"], 0.6)
        self.assertIn("3 launches, 500 GB/s", figures["ncu attention_tensor"]["text"])
        self.assertAlmostEqual(figures["attention forward 1x64x2x32: flash's time / ours"]["value"], 0.5)
        self.assertAlmostEqual(
            figures["llama-1b: best algorithms' time / cuBLASLt's choices'"]["value"], 0.9)
        self.assertGreater(figures["llama-1b: ShardMark / PyTorch eager"]["value"], 0)
        self.assertEqual(figures["a plain copy of a gigabyte, read"]["value"], 2)
        self.assertIn("of a plain copy's", figures["checkpoints, write"]["text"])
        page = self.summary("good")
        self.assertLess(len(page.splitlines()), 120)
        self.assertIn("0 failed, 0 cut off", page)
        self.assertIn("Rehearsal", page)
        # What is finished is not done again.
        before = len(self.lines)
        self.assertEqual(self.visit("good"), 0)
        self.assertEqual(len(self.lines), before)

    def test_a_failing_tool_fails_its_check_and_the_visit(self):
        for program, stage, what in (
                ("cuda_check", "1", "cuda_check"), ("nvidia-smi", "1", "nvidia-smi"),
                ("bench_products", "3", "gpt2-1.5b: bench_products"),
                ("compute-sanitizer", "6", "memcheck of cuda_check"),
                ("ncu", "6", "ncu of two layers of llama-1b")):
            with self.subTest(program):
                out = f"bad-{program}"
                self.assertEqual(self.visit(out, "--stages", stage, STAND_IN_FAILS=program), 1)
                self.assertIn(what, self.of("fail"))
                self.assertIn(what, self.summary(out).split("Failed:")[1])
                if stage == "1":
                    self.assertEqual(self.of("fail"), [what])

    def test_a_program_that_hangs_is_ended_and_the_next_stage_runs(self):
        # Only the stand-in's end is certain: a busy machine may end others at their limits, too.
        self.assertEqual(self.visit("hangs", "--stages", "2,6", "--scale", "0.03",
                                    STAND_IN_HANGS="test_nn"), 1)
        hung = [line for line in self.lines if line["what"].endswith("(test_nn)")]
        self.assertEqual([line["state"] for line in hung], ["fail"])
        self.assertIn("its limit", hung[0]["text"])
        self.assertEqual([line["stage"] for line in self.lines if line["state"] == "finished"], [2, 6])

    def test_a_stage_ends_at_its_limit(self):
        self.assertEqual(self.visit("limit", "--stages", "1,6", "--total", "6",
                                    STAND_IN_HANGS="cuda_check"), 1)
        self.assertEqual([line["stage"] for line in self.lines if line["state"] == "cut"], [1, 6])
        self.assertEqual([line["stage"] for line in self.lines if line["state"] == "finished"], [1, 6])

    def test_total_ends_the_visit(self):
        self.assertEqual(self.visit("total", "--total", "0.5"), 1)
        self.assertEqual(len(self.of("cut")), 7)
        self.assertIn("7 cut off", self.summary("total"))

    def test_a_killed_visit_keeps_its_results_and_continues(self):
        for how in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how.name):
                out = f"killed-{how.name}"
                visit = self.start(out, "--stages", "1,6", STAND_IN_HANGS="ncu")
                for _ in range(1200):
                    self.lines = self.results(out)
                    if "racecheck of a run at stage 3" in self.of("pass"):
                        break
                    time.sleep(0.1)
                visit.send_signal(how)
                self.assertNotEqual(visit.wait(timeout=30), 0)
                self.lines = self.results(out)
                self.assertIn("memcheck of cuda_check", self.of("pass"))
                self.assertIn("stage 1", self.summary(out))
                if how == signal.SIGTERM:
                    self.assertIn("was told to stop", self.summary(out))
                first = [line for line in self.lines if line["stage"] == 1]
                self.assertEqual(self.visit(out, "--stages", "1,6"), 0)
                self.assertEqual([line for line in self.lines if line["stage"] == 1], first)
                self.assertEqual(self.of("cut"), [])

    def test_bad_arguments(self):
        self.assertEqual(self.visit("arguments", "--stages", "8"), 2)
        self.assertIn("must be from 1 to 7", self.text)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
