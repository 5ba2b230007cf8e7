#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step of a deck's model: bf16 parameters with fp32 master weights and AdamW
states, gradients clipped at norm 1, as ShardMark trains at stage 0 on one rank.

    train.py DECK [--set model.KEY=VALUE] [--micro-batch N] [--compile] [--steps N] [--device cpu]
"""
import argparse
import json
import statistics
import time

import torch

import models


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("deck")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    shape = models.read_deck(given.deck)["model"]
    for key_value in given.set:
        key, value = key_value.removeprefix("model.").split("=")
        shape[key] = json.loads(value)

    torch.manual_seed(1)
    device = torch.device(given.device)
    model = models.Transformer(shape).to(device, torch.bfloat16)
    master = [p.detach().float() for p in model.parameters()]
    optimizer = torch.optim.AdamW(master, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
                                  fused=True)
    step = torch.compile(model) if given.compile else model
    tokens = torch.randint(shape["vocab"], (given.micro_batch, shape["sequence"] + 1),
                           device=device)

    def train():
        loss = step(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        for p, m in zip(model.parameters(), master):
            m.grad, p.grad = p.grad.float(), None
        torch.nn.utils.clip_grad_norm_(master, 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(list(model.parameters()), master)
        return loss.item()  # the host reads each loss, as ShardMark's does

    seconds = []
    for i in range(given.warmup + given.steps):
        start = time.perf_counter()
        loss = train()
        if i >= given.warmup:
            seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    print(json.dumps({"what": "train", "compiled": given.compile, "micro_batch": given.micro_batch,
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "tokens_per_s": given.micro_batch * shape["sequence"] * len(seconds) / sum(seconds),
                      "step_s": statistics.median(seconds), "loss": loss, "peak_bytes": peak,
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
