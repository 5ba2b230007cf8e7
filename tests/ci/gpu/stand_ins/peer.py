#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the peers: prints what they print, with the parameters of the model that it is given
(of GPT-2 with 1 layer and 64 channels, of Llama with half as many in keys and values)."""
import json
import sys

word = sys.argv[1]
if word in ("copy", "link", "product"):
    for what in {"link": ("device_to_host", "host_to_device")}.get(word, (word,)):
        print(json.dumps({"what": what, "gb_per_s": 10.0, "tflops": 1.0}))
elif word == "attention":
    print(json.dumps({"what": word, "forward_ms": 1.0, "backward_ms": 2.0}))
elif word == "file":
    print(json.dumps({"what": word, "write_gb_per_s": 1.0, "read_gb_per_s": 2.0}))
else:
    parameters = 53440 if "llama" in word else 68544  # as peers/models.py counts them
    print(json.dumps({"what": "train", "parameters": parameters, "tokens_per_s": 100.0,
                      "peak_bytes": None, "torch": "stand-in"}))
