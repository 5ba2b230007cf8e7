# SPDX-License-Identifier: Apache-2.0
"""Finds the libraries that a pack leaves to the machine (the driver, cuBLASLt, NCCL): in
LD_LIBRARY_PATH, in a CUDA toolkit, in the packages that PyTorch brings, or where the linker looks."""
import glob
import os
import pathlib
import subprocess
import sys


def toolkits():
    """The toolkits of this machine, the one of CUDA_HOME first."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return named + ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True)


def _folders():
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for toolkit in toolkits():
        yield from (f"{toolkit}/lib64", f"{toolkit}/lib", f"{toolkit}/targets/x86_64-linux/lib")
    yield from ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")  # the driver's, in containers
    for site in sys.path:
        if site:
            yield from sorted(glob.glob(f"{site}/nvidia/*/lib"))
            yield f"{site}/torch/lib"


def _of_linker():
    try:
        text = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    found = {}
    for line in text.splitlines():
        if "=>" in line and "x86-64" in line:
            found.setdefault(line.split()[0], pathlib.Path(line.split("=>")[1].strip()))
    return found


def find(names):
    """Returns the path of each library, or None."""
    linker = _of_linker()
    found = {}
    for name in names:
        places = (pathlib.Path(folder) / name for folder in _folders())
        found[name] = next((p for p in places if p.exists()), linker.get(name))
    return found
