# SPDX-License-Identifier: Apache-2.0
"""The two models whose speed a visit measures, their work, and the peaks that it is compared with."""
import json
import re

# Dense bf16 products, from NVIDIA's data sheets.
PEAKS = (("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989.4e12), ("H200", 989.4e12),
         ("GH200", 989.4e12), ("A100", 312e12), ("B200", 2250e12))
MODELS = ("llama-1b", "gpt2-1.5b")
# What a host can train in a second, to try the stages without a GPU.
SMALL = ["model.layers=1", "model.hidden=64", "model.heads=2", "model.sequence=32", "model.vocab=256",
         "run.steps=2", "run.warmup=1"]


def sets(v, name):
    """The changes to a deck that the speed is measured with."""
    if v.on_gpu:
        return []
    return SMALL + (["model.kv_heads=1", "model.ffn=128"] if "llama" in name else [])


def shape(v, name):
    text = (v.root / "inputs" / f"{name}.json").read_text()
    model = json.loads(re.sub(r"(^|\s)//[^\n]*", "", text))["model"]
    for key_value in sets(v, name):
        section, value = key_value.split("=")
        if section.startswith("model."):
            model[section.removeprefix("model.")] = json.loads(value)
    return model


def flops_per_token(m):
    """Forward and backward of the products, 6 per weight, and of attention as if it were not causal
    (Chowdhery et al., PaLM, 2022, appendix B). Recomputation is not counted."""
    hidden, layers = m["hidden"], m["layers"]
    if m["family"] == "llama":
        kv = hidden // m["heads"] * m.get("kv_heads", m["heads"])
        block = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * m["ffn"]
    else:
        block = 12 * hidden * hidden
    return 6 * (layers * block + hidden * m["vocab"]) + 12 * layers * hidden * m["sequence"]


def peak(v):
    for line in v.book.lines:
        if line["what"] == "GPU":
            return next((flops for name, flops in PEAKS if name in line["text"]), None)
    return None
