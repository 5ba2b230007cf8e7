#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reaches on this device: a copy in its memory, copies over the host link, a large bf16
product, flash attention, and the copy of a gigabyte to and from a file. Times are medians by events;
operands are larger than any cache.

    device.py copy | link | product | attention BATCH SEQUENCE HEADS HEAD_SIZE | file FOLDER
              [--device cpu]
"""
import json
import os
import pathlib
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


def file(folder):
    """Device memory through two pinned pieces to a file that is durable at the end, and back from a
    file that the page cache no longer has."""
    path, piece = pathlib.Path(folder) / "copy.bin", 16 << 20
    there = torch.randint(255, (MIB << 20,), dtype=torch.uint8, device=DEVICE).view(-1, piece)
    here = torch.empty((2, piece), dtype=torch.uint8, pin_memory=not CPU)
    wait = (lambda: None) if CPU else torch.cuda.synchronize

    def write():
        with open(path, "wb", buffering=0) as to:
            here[0].copy_(there[0], non_blocking=True)
            for i in range(len(there)):
                wait()
                if i + 1 < len(there):
                    here[(i + 1) % 2].copy_(there[i + 1], non_blocking=True)
                to.write(here[i % 2].numpy())
            os.fsync(to.fileno())
            os.posix_fadvise(to.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read():
        with open(path, "rb", buffering=0) as source:
            for i in range(len(there)):
                source.readinto(here[i % 2].numpy())
                wait()
                there[i].copy_(here[i % 2], non_blocking=True)
        wait()

    def gb_per_s(work):
        start = time.perf_counter()
        work()
        return there.numel() / (time.perf_counter() - start) / 1e9

    for _ in range(3):
        tell("file", write_gb_per_s=gb_per_s(write), read_gb_per_s=gb_per_s(read))
    path.unlink()


if __name__ == "__main__":
    if WORDS[0] == "attention":
        attention(*map(int, WORDS[1:5]))
    elif WORDS[0] == "file":
        file(WORDS[1])
    else:
        {"copy": copy, "link": link, "product": product}[WORDS[0]]()
