# SPDX-License-Identifier: Apache-2.0
from ramble.appkit import *


class Shardmark(ExecutableApplication):
    """ShardMark trains a transformer under ZeRO stage 0, 1, 2 or 3, and proves the memory and the
    collectives that it predicted. A run counts only if it is VALID on the ranks asked for."""

    name = "shardmark"

    maintainers("shardmark")

    tags("benchmark-app", "mini-app", "machine-learning", "mpi")

    software_spec("shardmark", pkg_spec="shardmark@main", package_manager="spack*")
    required_package("shardmark", package_manager="spack*")

    executable(
        "train",
        "{program} run {deck} --set deepspeed.zero_optimization.stage={stage} {settings} "
        "--out {experiment_run_dir}/report",
        use_mpi=True,
    )
    executable(
        "storage",
        "{program} run checkpoint-8b --set checkpoint.dir={experiment_run_dir}/checkpoints "
        "{settings} --out {experiment_run_dir}/report",
        use_mpi=True,
    )

    workload("train", executables=["train"])
    workload("storage", executables=["storage"])
    workload_group("all", workloads=["train", "storage"])

    workload_variable(
        "program",
        default="{shardmark_path}/bin/shardmark",
        description="Path of the program",
        workload_group="all",
    )
    workload_variable(
        "deck",
        default="gpt-tiny-z3",
        description="Name of a shipped deck, or the path of another",
        workloads=["train"],
    )
    workload_variable(
        "stage",
        default="3",
        values=["0", "1", "2", "3"],
        description="ZeRO stage",
        workloads=["train"],
    )
    workload_variable(
        "settings",
        default="",
        description="Changes of the deck: --set key=value ...",
        workload_group="all",
    )

    environment_variable(
        "OMP_NUM_THREADS",
        value="{n_threads}",
        description="Threads per rank",
        workloads=["train", "storage"],
    )

    output = "{experiment_run_dir}/{experiment_name}.out"
    number = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"

    for _name, _units in (
        ("tokens_per_s", "tokens/s"),
        ("checkpoint_write_gib_per_s", "GiB/s"),
        ("checkpoint_read_gib_per_s", "GiB/s"),
    ):
        figure_of_merit(
            _name,
            log_file=output,
            fom_regex=rf"^FOM {_name}=(?P<fom>{number})$",
            group_name="fom",
            units=_units,
        )
    for _name, _words in (("step_p50", "step p50"), ("exposed", "exposed communication")):
        figure_of_merit(
            _name,
            log_file=output,
            fom_regex=rf".*{_words} (?P<ms>{number})",
            group_name="ms",
            units="ms",
        )
    # The reasons are those of a run that is unofficial or INVALID; another run has no such figure.
    for _name, _line in (
        ("class", r"CLASS=(?P<text>\w+)"),
        ("result", r"RESULT=(?P<text>\w+)"),
        ("class_reasons", r"CLASS=unofficial \((?P<text>.*)\)$"),
        ("result_reasons", r"RESULT=INVALID \((?P<text>.*)\)$"),
    ):
        figure_of_merit(
            _name, log_file=output, fom_regex=f"^{_line}", group_name="text", units=""
        )
    figure_of_merit(
        "ranks",
        log_file=output,
        fom_regex=r".*, ZeRO stage [0-3], (?P<ranks>\d+) ranks?,",
        group_name="ranks",
        units="",
    )

    success_criteria("valid", mode="string", match=r"^RESULT=VALID$", file=output)
    success_criteria(
        "on the ranks asked for",
        mode="string",
        match=r".*, ZeRO stage [0-3], {n_ranks} ranks?,",
        file=output,
    )

    archive_pattern("{experiment_run_dir}/report/*")
