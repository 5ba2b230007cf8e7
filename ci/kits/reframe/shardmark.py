# SPDX-License-Identifier: Apache-2.0
"""ReFrame tests of ShardMark: training with its collectives at each ZeRO stage, and storage.

`-S ranks=8 -S deck=gpt2-124m-z3` changes what is run; SHARDMARK_BIN names the program if it is not
on PATH.
"""

import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)


class ShardMarkRun(rfm.RunOnlyRegressionTest):
    """A run that must be VALID on the ranks that were asked for."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    maintainers = ["shardmark"]
    tags = {"shardmark", "ml"}
    sourcesdir = None
    time_limit = "10m"

    deck = variable(str, value="gpt-tiny-z3")
    ranks = variable(int, value=2)
    program = variable(str, value=os.environ.get("SHARDMARK_BIN", "shardmark"))

    def settings(self):
        """Returns the values of --set."""
        return []

    @run_after("init")
    def command(self):
        self.num_tasks = self.ranks
        self.executable = self.program
        self.executable_opts = ["run", self.deck, "--out", "out"]
        for setting in self.settings():
            self.executable_opts += ["--set", setting]
        self.keep_files = ["out"]

    @run_before("run")
    def threads(self):
        self.env_vars["OMP_NUM_THREADS"] = self.num_cpus_per_task or 1

    @sanity_function
    def is_valid(self):
        return sn.all(
            [
                # ReFrame's message then has the reasons of an INVALID run.
                sn.assert_eq(sn.extractsingle(r"^RESULT=(.*)$", self.stdout, 1), "VALID"),
                sn.assert_found(
                    rf", {self.ranks} ranks?,",
                    self.stdout,
                    f"did not run on {self.ranks} ranks: is the launcher one for MPI?",
                ),
                sn.assert_eq(self.job.exitcode, 0),
            ]
        )


@rfm.simple_test
class ShardMarkTrain(ShardMarkRun):
    """One deck at each ZeRO stage; tokens per second is the figure of merit."""

    stage = parameter([0, 1, 2, 3], fmt=lambda stage: f"z{stage}")
    steps = variable(int, value=20)

    def settings(self):
        return [
            f"deepspeed.zero_optimization.stage={self.stage}",
            f"run.steps={self.steps}",
            "run.warmup=3",
        ]

    @performance_function("tokens/s")
    def tokens_per_s(self):
        return sn.extractsingle(r"^FOM tokens_per_s=(\S+)$", self.stdout, 1, float)

    @performance_function("ms")
    def exposed_communication(self):
        return sn.extractsingle(r"exposed communication (\S+)", self.stdout, 1, float)

    # Stage 0 gathers nothing; its collective is the all_reduce of the gradients.
    @performance_function("GB/s")
    def busbw(self):
        verb = "all_reduce" if self.stage == 0 else "all_gather"
        row = rf"^\s+{verb}(?:\s+\S+){{6}}\s+(\S+)$"
        return sn.extractsingle(row, self.stdout, 1, float)


@rfm.simple_test
class ShardMarkStorage(ShardMarkRun):
    """Checkpoints written and read, and nothing trained; GiB/s are the figures of merit.

    The default model is small. A site fills its file system with `-S gib=8 -S hidden=1024`.
    """

    tags = {"shardmark", "storage"}
    deck = "checkpoint-8b"
    hidden = variable(int, value=256)
    gib = variable(float, value=0.3)

    def settings(self):
        return [
            "checkpoint.dir=checkpoints",
            "checkpoint.benchmark=2",
            f"model.hidden={self.hidden}",
            f"model.ffn={self.hidden * 7 // 4}",
            f"memory.device_gib={self.gib}",
        ]

    @performance_function("GiB/s")
    def write(self):
        return sn.extractsingle(r"^FOM checkpoint_write_gib_per_s=(\S+)$", self.stdout, 1, float)

    @performance_function("GiB/s")
    def read(self):
        return sn.extractsingle(r"^FOM checkpoint_read_gib_per_s=(\S+)$", self.stdout, 1, float)
