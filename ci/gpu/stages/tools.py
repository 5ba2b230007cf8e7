# SPDX-License-Identifier: Apache-2.0
"""Stage 6: the sanitizers find nothing in small runs; ncu gives every kernel's time and traffic in
two layers of llama-1b, hence the gaps between kernels, and looks at the five heaviest more closely.
"""
import csv
import re

from . import models

FEW = ["run.steps=2", "run.warmup=0", "model.layers=1", "expect.loss_drop=0"]
METRICS = "gpu__time_duration.sum,dram__bytes.sum"


def run(v):
    sanitize(v)
    profile(v)


def sanitize(v):
    tool = v.tool("compute-sanitizer")
    if tool is None:
        return v.skip("compute-sanitizer", "it is not on this machine")
    for kind in ("memcheck", "racecheck"):
        for stage in (None, 0, 3):
            program = [v.program("cuda_check")]
            if stage is not None:
                program = v.command("run", v.deck(f"gpt-tiny-z{stage}"), "--out",
                                    str(v.work / "sanitized"), sets=FEW + ["model.hidden=64"])
            o = v.execute([tool, "--tool", kind, "--error-exitcode", "99"] + program, 120)
            what = "cuda_check" if stage is None else f"a run at stage {stage}"
            # 77: there is no GPU, so that nothing was run.
            v.check(f"{kind} of {what}", o.status == 0 or (o.status == 77 and not v.on_gpu), o.why())


def profile(v):
    tool = v.tool("ncu")
    if tool is None:
        return v.skip("ncu", "it is not on this machine")
    sets = models.sets(v, "llama-1b") + FEW[:2] + ["model.layers=2"] + [
        "run.activation_checkpointing=false", "deepspeed.zero_optimization.stage=0"]
    bare = v.shardmark(v.deck("llama-1b"), sets)
    v.check_valid("two layers of llama-1b", bare)
    command = v.command("run", v.deck("llama-1b"), "--out", str(v.work / "profiled"), sets=sets)
    # Clocks are left as they are; a step's kernels are a few hundred launches.
    ncu = [tool, "--csv", "--clock-control", "none"]
    o = v.execute(ncu + ["--metrics", METRICS] + command, 240)
    kernels = by_kernel(o.text)
    # Under ncu, which has memory of its own, a run is INVALID.
    if not v.check("ncu of two layers of llama-1b", o.status in (0, 1) and kernels != {}, o.why()):
        return
    busy_s = sum(k["seconds"] for k in kernels.values())
    heaviest = sorted(kernels.items(), key=lambda item: -item[1]["seconds"])
    for name, k in heaviest[:12]:
        rate = k["bytes"] / k["seconds"] / 1e9 if k["seconds"] else 0
        v.figure(f"ncu {name}", k["seconds"] / busy_s, "of the kernels' time",
                 text=f"{k['launches']} launches, {rate:.0f} GB/s of device memory")
    steps_s = sum(float(row["seconds"]) for row in bare.losses)
    if steps_s:
        v.figure("gaps between kernels", max(0.0, 1 - busy_s / steps_s),
                 text=f"kernels {busy_s * 1e3:.1f} ms, steps {steps_s * 1e3:.1f} ms; the self-check's "
                      "kernels are among the former")
    for name, _ in heaviest[:5]:
        o = v.execute(ncu + ["--section", "SpeedOfLight", "--section", "Occupancy", "-k",
                             f"regex:{re.escape(name)[:80]}", "-c", "1"] + command, 60)
        v.check(f"ncu's closer look at {name}", o.status == 0, o.why())


def by_kernel(text):
    """Sums ncu's table, which has a row per launch and metric, by the names of kernels."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    kernels = {}
    for row in csv.DictReader(rows):
        name = short(row.get("Kernel Name") or "")
        k = kernels.setdefault(name, {"seconds": 0.0, "bytes": 0.0, "launches": 0})
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (KeyError, ValueError):
            continue
        unit = row.get("Metric Unit", "")
        if row["Metric Name"].startswith("gpu__time"):
            k["seconds"] += value * {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6,
                                     "ms": 1e-3, "msecond": 1e-3}.get(unit, 1)
            k["launches"] += 1
        elif row["Metric Name"].startswith("dram__bytes"):
            k["bytes"] += value * {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}.get(unit, 1)
    return {name: k for name, k in kernels.items() if k["launches"]}


# What launches kernels, and what they get.
WRAPPERS = {"Context", "RowBody", "RowSum", "StripBody", "Team", "ConstStored", "Stored"}


def short(name):
    """The part of a kernel's name that tells kernels apart: of Kokkos' launches, the function that
    launches, or the functor."""
    names = re.findall(r"shardmark::(?:(?:\w+|<unnamed>|\(anonymous namespace\))::)*(\w+)", name)
    names = [n for n in names if n not in WRAPPERS and not n.startswith("for_each")]
    return (names[0] if names else name.split("(")[0].split("<")[0].strip())[:60]
