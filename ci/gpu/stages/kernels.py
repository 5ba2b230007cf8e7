# SPDX-License-Identifier: Apache-2.0
"""Stage 4: each kind of kernel beside the best that is known for it on the same device: kernels that
stream memory beside a copy, cuBLASLt's choice beside the best of its algorithms, attention beside
PyTorch's flash attention."""
import json

from . import models

# Batch, sequence, heads, size of a head: llama-1b's (its keys and values repeated), gpt2-1.5b's.
ATTENTION = ((4, 2048, 32, 64), (4, 1024, 25, 64), (1, 4096, 16, 128))


def run(v):
    copy = peer_figure(v, "copy", "gb_per_s", "a copy in device memory", "GB/s")
    peer_figure(v, "product", "tflops", "a large bf16 product", "TFLOP/s")
    attention(v)
    best_products(v)
    streams(v, copy)


def peer_figure(v, what, key, name, unit):
    line = v.peer_line(name, "device.py", what, limit_s=60)
    if line is None:
        return None
    v.figure(name, line[key], unit)
    return line[key]


def attention(v):
    if not v.has("bench_attention"):
        return v.skip("attention", "the pack has no bench_attention")
    for shape in ATTENTION if v.on_gpu else ((1, 64, 2, 32),):
        words = [str(n) for n in shape]
        name = "x".join(words)
        o = v.execute([v.program("bench_attention"), *words], 60)
        if not v.check(f"bench_attention {name}", o.status == 0 and o.json_lines() != [], o.why()):
            continue
        ours = o.json_lines()[-1]
        flash = v.peer_line(f"flash attention {name}", "device.py", "attention", *words)
        if flash is None:
            continue
        for part in ("forward", "backward"):
            v.figure(f"attention {part} {name}: flash's time / ours",
                     flash[f"{part}_ms"] / ours[f"{part}_ms"], target=">= 0.8",
                     text=f"{ours[f'{part}_ms']:.3f} ms, flash {flash[f'{part}_ms']:.3f} ms")


def best_products(v):
    if not v.has("bench_best_products"):
        return v.skip("cuBLASLt's choice", "the pack has no bench_best_products")
    for name in v.models:
        o = v.execute([v.program("bench_best_products"), v.deck(name), *models.sets(v, name)], 90)
        if v.check(f"{name}: bench_best_products", o.status == 0 and o.json_lines() != [], o.why()):
            lines = o.json_lines()
            worst = min(lines, key=lambda line: line["value"])
            v.figure(f"{name}: best algorithms' time / cuBLASLt's choices'",
                     sum(line["best_us"] for line in lines) / sum(line["chosen_us"] for line in lines),
                     text=f"{len(lines)} shapes; worst {worst['value']:.2f} at {worst['what']}")


def streams(v, copy_gb_per_s):
    """The kernels of llama-1b's layers, from a machine file that is measured for that deck."""
    out = v.book.folder / "kernels.json"
    o = v.execute(v.command("calibrate", "--quick", "--out", str(out), "--disk", str(v.work), "--for",
                            v.deck("llama-1b"), sets=models.sets(v, "llama-1b")), 150)
    if not v.check("kernels by calibrate", o.status == 0, o.why()):
        return
    for name, rate in sorted(bandwidths(json.loads(out.read_text())).items(), key=lambda r: r[1]):
        text = f"{rate / copy_gb_per_s:.2f} of a copy" if copy_gb_per_s else ""
        v.figure(f"kernel {name}", rate, "GB/s", text=text)


def bandwidths(machine):
    """GB/s of each kernel at its largest size: what it writes and reads by the types that the file
    names. AdamW reads four fp32 arrays and writes three, and some write the parameter once more; others
    with more than two operands move more than is counted here."""
    width = {"fp32": 4, "bf16": 2, "fp16": 2, "uint8": 1}
    rates = {}
    for s in machine["device"].get("streams", []):
        elems, _, us = max(s["elems_width_us"])
        if us > 0 and elems >= 1 << 20:
            bytes_per_elem = width.get(s.get("dtype"), 4) + width.get(s.get("source"), 0)
            if s["kernel"].startswith("adamw_update"):
                bytes_per_elem = 28 + (width.get(s.get("dtype"), 4) if "rounding" in s["kernel"] else 0)
            moved = elems * bytes_per_elem
            rates[f"{s['kernel']} {s.get('dtype', '')}".strip()] = moved / us / 1e3
    return rates
