# SPDX-License-Identifier: Apache-2.0
# Benchpark, interface of 2026. It belongs in experiments/shardmark/ of a Benchpark tree, beside
# repo/shardmark/ with this project's Spack package and Ramble application. Its syntax is tested; it
# has not been run with Benchpark.
from benchpark.directives import maintainers, variant
from benchpark.experiment import Experiment
from benchpark.programming_model import ProgrammingModel, ProgrammingModelType
from benchpark.scaling import Scaling, ScalingMode


class Shardmark(
    Experiment,
    ProgrammingModel(ProgrammingModelType.Mpionly, ProgrammingModelType.Cuda),
    Scaling(ScalingMode.Strong, ScalingMode.Weak),
):
    variant(
        "workload",
        default="train",
        values=("train", "storage"),
        description="train a model, or write and read checkpoints",
    )
    variant("version", default="main", values=("main",), description="version")

    maintainers("shardmark")

    def compute_applications_section(self):
        ranks = 2 if self.spec.satisfies("exec_mode=test") else 8
        self.add_experiment_variable("ranks", ranks, True)
        self.add_experiment_variable("stage", ["0", "1", "2", "3"], True)
        # The batch per rank is fixed in the deck, so the global batch grows with the ranks.
        self.set_required_variables(
            n_resources="{ranks}", process_problem_size="1", total_problem_size="{ranks}"
        )

        def grow(variable, iteration, dimension, factor):
            return variable.val(dimension) * factor

        # A strong-scaling deck keeps its global batch; both modes vary only the ranks.
        deck = "fit-strong-scaling" if self.spec.satisfies("+strong") else "gpt-tiny-z3"
        self.add_experiment_variable("deck", deck)
        self.register_scaling_config(
            {ScalingMode.Strong: {"ranks": grow}, ScalingMode.Weak: {"ranks": grow}}
        )
        resource = "n_gpus" if self.spec.satisfies("+cuda") else "n_ranks"
        self.add_experiment_variable(resource, "{n_resources}", True)

    def compute_package_section(self):
        self.add_package_spec(self.name, [f"shardmark{self.determine_version()}"])
