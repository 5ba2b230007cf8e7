# SPDX-License-Identifier: Apache-2.0
# Trains a model as a file of `advise --for torch --write` says, on ranks of gloo, as the comments of the
# file tell the training loop to.
import contextlib
import importlib.util
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from transformers import AutoConfig, AutoModelForCausalLM

STEPS = 4


def module_of(file):
    """The written file as a module. Memory is pinned for devices only."""
    text = open(file).read().replace("pin_memory=True", "pin_memory=False")
    spec = importlib.util.spec_from_loader("advice", loader=None)
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, file, "exec"), module.__dict__)
    return module


def loss_of(model, tokens, autocast):
    with torch.autocast("cpu", dtype=autocast) if autocast else contextlib.nullcontext():
        return model(input_ids=tokens, labels=tokens, use_cache=False).loss


def before_micro_batch(model, arguments, last):
    """Switches what changes before the last micro-batch of a step; returns the context of the micro-batch."""
    given = arguments["torch"]
    if not isinstance(model, FSDPModule):
        return contextlib.nullcontext() if last or not given["no_sync"] else model.no_sync()
    for name in ("set_requires_gradient_sync", "set_requires_all_reduce", "set_reshard_after_backward",
                 "set_is_last_backward"):
        if not given[name]:
            getattr(model, name)(last)
    return contextlib.nullcontext()


def losses_of(base, config, rank, world):
    arguments = json.load(open(base + "-torch.json"))
    assert arguments["world_size"] == world
    advice = module_of(base + "-torch.py")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config), dtype=torch.float32)
    blocks = list(model.model.layers)
    shards = arguments["wrapper"] == "fully_shard"
    model = advice.wrap_model(model, blocks, device="cpu") if shards else advice.wrap_model(model, blocks)
    optimizers = advice.make_optimizer(model)
    optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
    policy = arguments["torch"].get("mp_policy") or {}
    autocast = None
    if not shards and "param_dtype" in policy:
        autocast = {"bf16": torch.bfloat16, "fp16": torch.float16}[policy["param_dtype"]]
    accumulation, micro = arguments["gradient_accumulation_steps"], arguments["micro_batch_size"]
    assert world * accumulation * micro == arguments["train_batch_size"]
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 64, (world, accumulation, micro, 16), generator=generator)
    losses = []
    for _ in range(STEPS):
        total = torch.zeros(())
        for i in range(accumulation):
            with before_micro_batch(model, arguments, i + 1 == accumulation):
                loss = loss_of(model, tokens[rank, i], autocast) / accumulation
                loss.backward()
            total += loss.detach()
        if arguments["gradient_clipping"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), arguments["gradient_clipping"])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        dist.all_reduce(total)
        losses.append(total.item() / world)
    return losses


def rank_main(rank, bases, config, world, port, results):
    """Trains with each file, and leaves the losses of each or what went wrong."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world),
                      LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(seconds=120))
    for base in bases:
        try:
            done = losses_of(base, config, rank, world)
        except Exception as error:  # the same on all ranks, or the others meet the time limit
            done = f"{type(error).__name__}: {error}"
        if rank == 0:
            results.put((base, done))
        dist.barrier()
    dist.destroy_process_group()
