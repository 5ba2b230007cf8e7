# SPDX-License-Identifier: Apache-2.0
"""Stage 1: what the machine has, whether kernels and products compute what they should, and one run
at each ZeRO stage on one rank."""
import platform
import sys

DRIVER = ("name", "driver_version", "memory.total", "clocks.max.sm", "power.limit")


def run(v):
    driver = v.tool("nvidia-smi")
    if driver:
        o = v.execute([driver, f"--query-gpu={','.join(DRIVER)}", "--format=csv,noheader"], 30,
                      own_libraries=False)
        v.check("nvidia-smi", o.status == 0, o.why())
        v.book.note("figure", "GPU", o.last_line())
    else:
        v.skip("nvidia-smi", "it is not on this machine")
    v.book.note("figure", "system", f"{platform.platform()}, {' '.join(platform.libc_ver())}, "
                                    f"Python {platform.python_version()}")
    o = v.execute([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda,"
                   " torch.cuda.is_available())"], 90, own_libraries=False)
    if o.status == 0:
        v.book.note("figure", "PyTorch, its CUDA, a GPU for it", o.last_line())
    else:
        v.skip("PyTorch", "Python finds no torch")
    for name, path in v.found.items():
        v.check(f"library {name}", path is not None,
                "it is in no toolkit, not in PyTorch's packages and not known to the linker")
    o = v.execute([v.program("shardmark"), "--version"], 30)
    v.check("shardmark starts", o.status == 0, o.why())
    v.book.note("figure", "pack", f"{o.last_line()}, commit {v.pack['commit'][:12]}, "
                                  f"for {v.pack['device']}")

    o = v.execute([v.program("cuda_check")], 60)
    if o.status == 77 and not v.on_gpu:
        v.skip("cuda_check", "no GPU")
    else:
        v.check("cuda_check", o.status == 0, o.why())
    o = v.execute(v.mpi(2, [v.program("nccl_info")], own_host if v.on_gpu else None), 60)
    if not v.on_gpu and o.status != 0:
        v.skip("nccl_info", "a build for the host")
    else:
        v.check("nccl_info on two ranks", o.status == 0, o.why())
    for stage in range(4):
        r = v.shardmark(v.deck(f"gpt-tiny-z{stage}"), tiny(v))
        v.check_valid(f"a run at stage {stage}", r)
        if r.report:
            versions = r.report.get("versions", {})
            v.book.note("figure", f"first loss at stage {stage}", versions.get("kokkos", ""),
                        value=float(r.losses[0]["loss"]))


def tiny(v):
    """A host needs minutes for what takes a GPU seconds."""
    return [] if v.on_gpu else ["run.steps=2", "run.warmup=1", "model.layers=1", "model.hidden=64",
                                "expect.loss_drop=0"]


def own_host(rank):
    """Lets NCCL accept several ranks on one GPU: each seems to be on a host of its own."""
    return {"NCCL_HOSTID": f"visit-{rank}"}
