# SPDX-License-Identifier: Apache-2.0
"""Stage 2: the rules of the test-suite on the device, from outside. Losses and norms are those of an
independent float64 implementation; the four ZeRO stages give the same bits; a run that resumes gives
the bits of the run that did not stop; copies of offload are those of the plan; broken runs end
INVALID; several ranks share the GPU, over NCCL and over the host's back-ends."""
import json
from functools import partial

from .first import own_host

# The bounds of tests/miniapp/execute/reference_run_test.cpp: loss, gradient norm.
BOUNDS = {"fp32": (1e-6, 5e-6), "bf16": (3e-4, 1e-2), "fp16": (3e-4, 1e-2)}
FAULTS = ("leak", "extra_call", "flip_bit", "stale_shard", "nan", "repeat_micro", "fewer_elems")


def run(v):
    cases = json.loads((v.root / "tests/data/transformer_reference.json").read_text())["cases"]
    checks = [lambda: unit_tests(v)]
    for number, case in enumerate(cases if v.on_gpu else cases[2:4]):
        for dtype in BOUNDS:
            checks.append(partial(reference, v, number, case, dtype))
    checks += [partial(equality, v, cases[0], dtype) for dtype in ("fp32", "bf16")]
    checks.append(partial(resumed, v, cases[0]))
    checks += [partial(offloaded, v, cases[0], name, sets)
               for name, sets in (("optimizer", [offload("optimizer")]),
                                  ("optimizer and parameters", [offload("optimizer"), offload("param")]))]
    checks += [partial(noticed, v, cases[0], fault) for fault in FAULTS]
    for backend in ("nccl", "mpi", "shm"):
        if backend == "nccl" and not v.on_gpu:
            v.skip("two ranks over nccl", "a build for the host")
            continue
        checks += [partial(two_ranks, v, cases[0], backend, stage) for stage in (0, 3)]
    v.together(checks)


def unit_tests(v):
    if not v.has("test_nn"):
        return v.skip("test_nn", "the pack has none")
    o = v.execute([v.program("test_nn")], 180)
    v.check("kernels, layers and models (test_nn)", o.status == 0, o.why())


def offload(what):
    return f'deepspeed.zero_optimization.offload_{what}={{"device":"cpu","pin_memory":true}}'


def deck(v, case, dtype, stage, schedule="deepspeed", steps=None):
    c = case["config"]
    model = {k: c[k] for k in ("family", "layers", "hidden", "heads", "kv_heads", "ffn", "sequence",
                               "vocab", "tied_head") if k in c}
    o = c["optimizer"]
    deepspeed = {"train_batch_size": c["batch"], "gradient_clipping": c["gradient_clipping"],
                 "zero_optimization": {"stage": stage},
                 "optimizer": {"type": "AdamW", "params": {k: o[k] for k in o}}}
    if dtype != "fp32":
        deepspeed[dtype] = {"enabled": True}
    if dtype == "fp16":
        deepspeed[dtype]["loss_scale"] = 8
    # What the driver counts contains the memory of the checks that run beside this one.
    return v.write_deck({
        "memory": {"allowance_mib": 65536},
        "name": f"{c['family']}-{c['seed']}-{dtype}-{stage}-{schedule}", "model": model,
        "data": {"source": "uniform", "seed": c["seed"]}, "deepspeed": deepspeed,
        "run": {"steps": steps or c["steps"], "seed": c["seed"], "schedule": schedule}})


def off(run, case, steps):
    """The largest relative distances of losses and norms from the reference's."""
    def worst(column, want):
        have = [float(row[column]) for row in run.losses][:steps]
        return max(abs(h - w) / abs(w) for h, w in zip(have, want)) if have else float("inf")
    return worst("loss", case["losses"]), worst("grad_norm", case["grad_norms"])


def reference(v, number, case, dtype):
    # In 16 bits the weights drift from the reference's with each step, so three are compared.
    steps = case["config"]["steps"] if dtype == "fp32" else 3
    loss_bound, norm_bound = BOUNDS[dtype]
    r = v.shardmark(deck(v, case, dtype, 1, "paper", steps))
    loss, norm = off(r, case, steps)
    v.check(f"reference {number} in {dtype}",
            r.valid() and loss < loss_bound and norm < norm_bound,
            r.why() if not r.valid() else f"loss off by {loss:.1e} (bound {loss_bound:.0e}), "
                                          f"norm by {norm:.1e} ({norm_bound:.0e})")


def equality(v, case, dtype):
    hashes = {}
    for stage in range(4):
        r = v.shardmark(deck(v, case, dtype, stage, "paper"))
        hashes[stage] = r.state_hash()
    v.check(f"stages 0 to 3 give the same bits in {dtype}",
            hashes[0] is not None and all(h == hashes[0] for h in hashes.values()),
            ", ".join(f"{stage}: {h and h['param']}" for stage, h in hashes.items()))


def resumed(v, case):
    whole = v.shardmark(deck(v, case, "fp32", 3, steps=6))
    folder = f"checkpoint.dir={v.work / 'checkpoints'}"
    first = v.shardmark(deck(v, case, "fp32", 3, steps=3), [folder, "checkpoint.every=3"])
    v.check_valid("a run that writes a checkpoint", first)
    then = v.shardmark(deck(v, case, "fp32", 3, steps=6), [folder, "checkpoint.resume=latest"])
    v.check("a resumed run gives the bits of an uninterrupted one",
            then.valid() and then.state_hash() == whole.state_hash(), then.why())


def offloaded(v, case, name, sets):
    v.check_valid(f"offload of {name}", v.shardmark(deck(v, case, "fp32", 3), sets))


def noticed(v, case, fault):
    r = v.shardmark(deck(v, case, "fp32", 2), environment={"SHARDMARK_FAULT": fault}, ranks=2,
                    per_rank=own_host if v.on_gpu else None)
    if v.on_gpu and r.status == 2 and "SHARDMARK_FAULT" in r.text:
        v.skip(f"fault {fault}", r.last_line())
    else:
        v.check(f"fault {fault} is noticed", r.status == 1 and "RESULT=INVALID" in r.text, r.why())


def two_ranks(v, case, backend, stage):
    r = v.shardmark(deck(v, case, "fp32", stage, "paper"), [f"comm.backend={backend}"], ranks=2,
                    per_rank=own_host if backend == "nccl" else None)
    loss, norm = off(r, case, case["config"]["steps"])
    v.check(f"two ranks over {backend} at stage {stage}",
            r.valid() and loss < BOUNDS["fp32"][0] and norm < BOUNDS["fp32"][1],
            r.why() if not r.valid() else f"loss off by {loss:.1e}, norm by {norm:.1e}")
