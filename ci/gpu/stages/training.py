# SPDX-License-Identifier: Apache-2.0
"""Stage 3: tokens per second, the part of the peak (MFU), the part of a step that is products, and
the memory that the driver reports, of two models in bf16, with PyTorch's step of the same model in
the same visit."""
import json

from . import models
from .programs import set_options

PLAIN = ["run.activation_checkpointing=false", "deepspeed.zero_optimization.stage=0"]


def run(v):
    for name in v.models:
        micro = largest_micro_batch(v, name)
        if micro is None:
            v.check(f"{name} fits", False, "not even one sample per step fits into the free memory")
            continue
        sets = models.sets(v, name) + PLAIN + [micro_key(micro)]
        ours = speed(v, f"{name}, stage 0", name, sets)
        beside_pytorch(v, name, micro, ours)
        products(v, name, sets)
        speed(v, f"{name}, as shipped (stage 3, recomputing)", name, models.sets(v, name))


def micro_key(micro):
    return f"deepspeed.train_micro_batch_size_per_gpu={micro}"


def largest_micro_batch(v, name):
    """The largest of 8, 4, 2, 1 whose plan needs at most nine tenths of the device."""
    if not v.on_gpu:
        return 1
    o = v.execute([v.tool("nvidia-smi") or "nvidia-smi", "--query-gpu=memory.free",
                   "--format=csv,noheader,nounits"], 30, own_libraries=False)
    gib = float(o.last_line()) / 1024 * 0.9
    for micro in (8, 4, 2, 1):
        sets = PLAIN + [micro_key(micro), f"memory.device_gib={gib:.2f}"]
        o = v.execute(v.command("plan", v.deck(name), "--ranks", "1", "--format", "json", sets=sets), 60)
        if o.status == 0 and json.loads(o.text)["memory"]["device"].get("fits"):
            return micro
    return None


def speed(v, what, name, sets):
    """Returns the run if it is VALID."""
    r = v.shardmark(v.deck(name), sets, limit_s=150)
    if not v.check_valid(what, r):
        return None
    v.figure(f"{what}: tokens/s", r.tokens_per_s(), "tokens/s",
             text=f"micro-batch {r.report['batch']['train_micro_batch_size_per_gpu']}")
    peak = models.peak(v)
    if peak:
        mfu = r.tokens_per_s() * models.flops_per_token(models.shape(v, name)) / peak
        target = ">= 0.5" if what == "llama-1b, stage 0" else None
        v.figure(f"{what}: MFU", mfu, target=target, text=f"of {peak / 1e12:.0f} TFLOP/s")
    device = r.report["memory"]["system"].get("device")
    if device:
        v.figure(f"{what}: memory in use", device["in_use"] / 2**30, "GiB",
                 text=f"the arena has {r.report['memory']['device']['measured_peak'] / 2**30:.2f}, "
                      f"context {device['context'] / 2**30:.2f}, libraries "
                      f"{device['libraries'] / 2**30:.2f}, unexplained {device['excess'] / 2**30:.2f}")
    return r


def beside_pytorch(v, name, micro, ours):
    for mode, target in (("eager", ">= 1.1"), ("compiled", ">= 1")):
        what = f"{name}: ShardMark / PyTorch {mode}"
        arguments = ["--micro-batch", str(micro), "--steps", "10" if v.on_gpu else "2"]
        arguments += ["--compile"] if mode == "compiled" else []
        arguments += set_options(s for s in models.sets(v, name) if s.startswith("model."))
        peer = v.peer_line(what, "train.py", v.deck(name), *arguments, limit_s=150)
        if peer is None:
            continue
        v.figure(f"{name}: PyTorch {mode}", peer["tokens_per_s"], "tokens/s",
                 text=f"{(peer['peak_bytes'] or 0) / 2**30:.1f} GiB, torch {peer['torch']}")
        if ours is None:
            continue
        v.check(f"{name}: PyTorch {mode} has the same parameters",
                peer["parameters"] == ours.report["parameters"],
                f"{peer['parameters']}, not {ours.report['parameters']}")
        v.figure(what, ours.tokens_per_s() / peer["tokens_per_s"],
                 target=target if name == "llama-1b" else None)


def products(v, name, sets):
    what = f"{name}: products / step"
    if not v.has("bench_products"):
        return v.skip(what, "the pack has no bench_products")
    o = v.execute([v.program("bench_products"), "3", v.deck(name)] + sets, 120)
    if v.check(f"{name}: bench_products", o.status == 0 and o.json_lines() != [], o.why()):
        line = o.json_lines()[-1]
        v.figure(what, line["value"], text=line["note"])
