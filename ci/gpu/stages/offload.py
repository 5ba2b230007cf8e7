# SPDX-License-Identifier: Apache-2.0
"""Stage 5: offload over the host link: bytes as planned, bandwidth beside a pinned copy of PyTorch's,
and how much of the copies' time computation hides. Checkpoints beside a plain copy to a file."""
import statistics

from . import models
from .first import tiny

DIRECTIONS = ("device_to_host", "host_to_device")


def run(v):
    o = v.peer("device.py", "link", limit_s=60)
    best = {line["what"]: line["gb_per_s"] for line in o.json_lines()}
    for direction in DIRECTIONS:
        if direction in best:
            v.figure(f"PyTorch's pinned copy, {direction}", best[direction], "GB/s")
        else:
            v.skip(f"PyTorch's pinned copy, {direction}", f"PyTorch: {o.why()}")
    host = '{"device":"cpu","pin_memory":true}'
    zero = "deepspeed.zero_optimization"
    small = tiny(v) + (["model.heads=2", "model.sequence=32", "model.vocab=256"] if not v.on_gpu else [])
    measure(v, "gpt2-124m, stage 2, optimizer", "gpt2-124m-z2-offload", small, best)
    measure(v, "llama-1b, stage 3, optimizer and parameters", "llama-1b",
            models.sets(v, "llama-1b") + [f"{zero}.offload_optimizer={host}",
                                          f"{zero}.offload_param={host}"], best)
    checkpoints(v)


def checkpoints(v):
    """State of the device to files and back, beside PyTorch's copy of a gigabyte to the same folder."""
    sets = ["checkpoint.benchmark=3", f"checkpoint.dir={v.work / 'checkpoints'}"]
    sets += ["memory.device_gib=12"] if v.on_gpu else ["memory.device_gib=0.05", "model.hidden=64",
                                                       "model.ffn=128", "model.vocab=256"]
    r = v.shardmark(v.deck("checkpoint-8b"), sets, limit_s=120)
    if not v.check_valid("checkpoints", r):
        return
    o = v.peer("device.py", "file", str(v.work), limit_s=60)
    plain = o.json_lines()
    if not plain:
        v.skip("a plain copy to a file", f"PyTorch: {o.why()}")
    measured = r.report["checkpoints"]["benchmark"]
    for way in ("write", "read"):
        ours = measured["state_bytes"] / statistics.median(measured[f"{way}_s"]) / 1e9
        beside = ""
        if plain:
            best = statistics.median(line[f"{way}_gb_per_s"] for line in plain)
            v.figure(f"a plain copy of a gigabyte, {way}", best, "GB/s")
            beside = f", {ours / best:.2f} of a plain copy's"
        v.figure(f"checkpoints, {way}", ours, "GB/s",
                 text=f"{measured['state_bytes'] / 2**30:.2f} GiB each{beside}")


def measure(v, what, deck, sets, best):
    r = v.shardmark(v.deck(deck), sets, limit_s=120)
    if not v.check_valid(what, r):
        return
    v.figure(f"{what}: tokens/s", r.tokens_per_s(), "tokens/s")
    for direction in DIRECTIONS:
        link = r.report["host_link"].get(direction)
        if not link or not link["measured"]["bytes"]:
            continue
        v.check(f"{what}: bytes {direction}", link["measured"] == link["predicted"],
                f"{link['measured']}, planned {link['predicted']}")
        beside = f", {link['gb_per_s'] / best[direction]:.2f} of PyTorch's" if (
            best.get(direction) and link["gb_per_s"]) else ""
        hidden = 1 - link["exposed_seconds_per_step"] / link["seconds_per_step"] if (
            link["seconds_per_step"]) else 0
        v.figure(f"{what}: {direction}", link["gb_per_s"] or 0, "GB/s",
                 text=f"{link['bytes_per_step'] / 1e9:.3g} GB per step, {max(0.0, hidden):.0%} of the "
                      f"time hidden{beside}")
