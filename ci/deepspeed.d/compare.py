# SPDX-License-Identifier: Apache-2.0
# Compares verdicts of DeepSpeed's config class (verdicts.py) with those of `shardmark deck check`:
#   compare.py VERDICTS.json PROGRAM
# Prints the counts, and each key on which the two disagree with the values and the program's message.
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from configs import merged, nested

MODEL = {"family": "list", "modules": [{"name": "a", "numels": [64]}]}


def judged(program, folder, number, config):
    """The program's verdict and its message."""
    deck = os.path.join(folder, f"{number}.json")
    with open(deck, "w", encoding="utf-8") as out:
        json.dump({"model": MODEL, "deepspeed": config, "run": {"steps": 1, "compute": "none"}}, out)
    ran = subprocess.run([program, "deck", "check", deck], capture_output=True, text=True, check=False)
    message = ran.stderr.strip().rpartition(": deepspeed")[2]
    if ran.returncode == 0:
        return "accepted", ""
    if ran.returncode != 2:
        return "failed", f"status {ran.returncode}: {ran.stderr.strip()}"
    return ("not modelled" if "not modelled" in message else "refused"), message


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    cases = []
    for key in data["keys"]:
        values = data["values"] + ([key["also"]] if "also" in key else [])
        base = merged({"train_batch_size": 4}, key.get("beside", {}))
        for value, verdict in zip(values, key["verdicts"]):
            cases.append((key["key"], value, merged(base, nested(key["key"], value)), verdict == "+"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: judged(sys.argv[2], folder, case[0], case[1][2]), enumerate(cases)))
    counts, wrong = {}, {}
    for (key, value, _, accepted), (verdict, message) in zip(cases, answers):
        kind = ("accepted" if accepted else "refused") + " by DeepSpeed, " + verdict + " here"
        counts[kind] = counts.get(kind, 0) + 1
        known = data["refused_later"] if accepted else data["refused_without_cuda"]
        bad = verdict == "failed" or (accepted and verdict == "refused") or (not accepted and verdict == "accepted")
        if bad and key not in known:
            wrong.setdefault((key, kind), []).append((value, message))
    for kind, count in sorted(counts.items()):
        print(f"{count:6}  {kind}")
    for (key, kind), values in wrong.items():
        print(f"{key}: {kind}: {json.dumps([value for value, _ in values])} {values[0][1]}")
    print(f"{len(cases)} verdicts about {len(data['keys'])} keys, {len(wrong)} keys with a disagreement")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
