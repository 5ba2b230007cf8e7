# SPDX-License-Identifier: Apache-2.0
# Asks for advice in several cases and runs what is written: trial.py PROGRAM SCRATCH.
import glob
import json
import os
import socket
import subprocess
import sys

import torch.multiprocessing as mp
from train import rank_main

CONFIG = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
MACHINE = {
    "machine_file": 1, "name": "small", "node": {"ranks": 2, "host_memory_gib": 8, "disk_gib": 100},
    "device": {"memory_gib": 4, "peak_tflops": {"fp32": 1, "bf16": 2, "fp16": 2}, "memory_gb_per_s": 100,
               "launch_us": 1},
    "host_link": {"to_device": {"gb_per_s": 10}, "to_host": {"gb_per_s": 10}},
    "network": [{"name": "bus", "link": {"latency_us": 1, "gb_per_s": 20}},
                {"name": "net", "between_nodes": True, "link": {"latency_us": 50, "gb_per_s": 0.1},
                 "node_gb_per_s": 0.1}],
}
BF16 = {"bf16": {"enabled": True}}


def optimizer(name, **params):
    return {"optimizer": {"type": name, "params": {"lr": 0.01, **params}}}


# Name, framework, ranks, DeepSpeed config, further arguments.
CASES = [
    ("fp32", "torch", 2, optimizer("AdamW"), []),
    ("bf16", "torch", 2, {**optimizer("AdamW"), **BF16}, []),
    ("nodes", "torch", 4, {**optimizer("Adam"), **BF16}, []),
    ("sgd", "torch", 2, optimizer("SGD", momentum=0.9), []),
    ("adagrad", "torch", 2, optimizer("Adagrad"), []),
    ("tight", "torch", 2, optimizer("AdamW"), ["--set", "memory.device_gib={tight}"]),
    ("clip", "torch", 2, {**optimizer("AdamW"), "gradient_clipping": 0.5}, []),
    ("ds-fp32", "deepspeed", 4, optimizer("AdamW"), []),
    ("ds-bf16", "deepspeed", 4, {**optimizer("Adam"), **BF16, "zero_optimization": {"stage": 3}}, []),
    ("ds-muon", "deepspeed", 4, {**optimizer("Muon"), **BF16, "zero_optimization": {"stage": 2}}, []),
    ("ds-auto", "deepspeed", 4, {"train_batch_size": "auto", "bf16": {"enabled": "auto"},
                                 "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}},
     ["--set", "hf.per_device_train_batch_size=2", "--set", "hf.gradient_accumulation_steps=2", "--set",
      "hf.bf16=true"]),
    ("ds-tight", "deepspeed", 4, optimizer("AdamW"), ["--set", "memory.device_gib={tight}"]),
]


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(bases, config, world):
    """For each file the losses of its steps, or what went wrong."""
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(rank_main, args=(bases, config, world, port(), results), nprocs=world, join=True)
    return dict(results.get() for _ in bases)


def why_refused(file, world):
    """Why DeepSpeed's config class refuses the file; empty: it does not."""
    code = ("import sys, deepspeed\nfrom deepspeed.runtime import config\n"
            "config.dist.get_world_size = lambda *_, **__: int(sys.argv[2])\n"
            "config.dist.get_rank = lambda *_, **__: 0\n"
            "c = config.DeepSpeedConfig(sys.argv[1])\n"
            "assert c.train_batch_size == c.train_micro_batch_size_per_gpu * c.gradient_accumulation_steps"
            " * int(sys.argv[2])\n")
    run = subprocess.run([sys.executable, "-c", code, file, str(world)], capture_output=True, text=True,
                         env={**os.environ, "DS_ACCELERATOR": "cpu"})
    return "" if run.returncode == 0 else run.stderr.strip().splitlines()[-1]


def advise(program, scratch, case):
    """The folder that the command leaves."""
    name, framework, ranks, deepspeed, more = case
    folder = f"{scratch}/{name}"
    json.dump(deepspeed, open(f"{scratch}/{name}-ds.json", "w"))
    command = [program, "advise", "--model", f"{scratch}/config.json", "--deepspeed", f"{scratch}/{name}-ds.json",
               "--sequence", "16", "--machine", f"{scratch}/machine.json", "--ranks", str(ranks), "--batch",
               str(4 * ranks), "--for", framework, "--write", folder, "--format", "json"]
    # The memory with which only the leanest candidates fit is found by halving.
    limits = [0.7**i for i in range(40)] if any("{tight}" in m for m in more) else [None]
    answer = None
    for limit in limits:
        run = subprocess.run(command + [m.replace("{tight}", str(limit)) for m in more], capture_output=True,
                             text=True)
        if run.returncode == 3:
            break
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        answer = json.loads(run.stdout)
    for stale in set(glob.glob(f"{folder}/*-torch.json")) - {w for w in answer["written"]}:
        os.remove(stale)
    return folder


def report(what, good, said):
    print(f"{'ok  ' if good else 'BAD '} {what}: {said}", flush=True)
    return 0 if good else 1


def main(program, scratch):
    json.dump(CONFIG, open(f"{scratch}/config.json", "w"))
    json.dump(MACHINE, open(f"{scratch}/machine.json", "w"))
    bad, bases = 0, {}
    for case in CASES:
        name, framework, ranks = case[:3]
        kind = "torch" if framework == "torch" else "deepspeed"
        ending = f"-{kind}.json"
        files = sorted(glob.glob(f"{advise(program, scratch, case)}/*{ending}"))
        if not files:
            bad += report(name, False, "no file was written")
        for file in files:
            if kind == "torch":
                bases.setdefault(ranks, []).append(file[: -len(ending)])
            else:
                why = why_refused(file, ranks)
                bad += report(os.path.relpath(file, scratch), not why, why or "taken by DeepSpeed's config class")
    for ranks, group in bases.items():
        for base, done in train(group, f"{scratch}/config.json", ranks).items():
            trains = isinstance(done, list) and done[-1] < done[0]
            said = "losses " + " ".join(f"{loss:.4f}" for loss in done) if isinstance(done, list) else done
            bad += report(os.path.relpath(base, scratch) + "-torch.py", trains, said)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
