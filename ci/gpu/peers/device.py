#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reaches on this device: a copy in its memory, copies over the host link, a large bf16
product, and flash attention. Times are medians by events; operands are larger than any cache.

    device.py copy | link | product | attention BATCH SEQUENCE HEADS HEAD_SIZE   [--device cpu]
"""
import json
import statistics
import sys
import time

import torch
from torch.nn import functional

CPU = "--device" in sys.argv
WORDS = [a for a in sys.argv[1:] if a not in ("--device", "cpu")]
DEVICE = torch.device("cpu" if CPU else "cuda")
REPEATS, MIB = (3, 4) if CPU else (20, 1024)


def seconds_of(work):
    """The median over REPEATS, after three warm-ups."""
    for _ in range(3):
        work()
    times = []
    for _ in range(REPEATS):
        if CPU:
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def tell(what, **figures):
    print(json.dumps({"what": what, **figures}), flush=True)


def copy():
    a = torch.randint(255, (MIB << 20,), dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    tell("copy", gb_per_s=2 * a.numel() / seconds_of(lambda: b.copy_(a)) / 1e9)  # read and written


def link():
    there = torch.randint(255, (MIB << 18,), dtype=torch.uint8, device=DEVICE)
    here = torch.empty(there.shape, dtype=torch.uint8, pin_memory=not CPU)
    tell("device_to_host",
         gb_per_s=here.numel() / seconds_of(lambda: here.copy_(there, non_blocking=True)) / 1e9)
    tell("host_to_device",
         gb_per_s=here.numel() / seconds_of(lambda: there.copy_(here, non_blocking=True)) / 1e9)


def product():
    n = 256 if CPU else 8192
    a, b = (torch.randn(n, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    tell("product", n=n, tflops=2 * n**3 / seconds_of(lambda: a @ b) / 1e12)


def attention(batch, sequence, heads, size):
    shape = (batch, heads, sequence, size)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3))
    dout = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel([SDPBackend.MATH] if CPU else [SDPBackend.FLASH_ATTENTION]):
        forward = seconds_of(
            lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        backward = seconds_of(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
    tell("attention", shape=[batch, sequence, heads, size], forward_ms=forward * 1e3,
         backward_ms=backward * 1e3)


if __name__ == "__main__":
    if WORDS[0] == "attention":
        attention(*map(int, WORDS[1:5]))
    else:
        {"copy": copy, "link": link, "product": product}[WORDS[0]]()
