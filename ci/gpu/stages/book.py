# SPDX-License-Identifier: Apache-2.0
"""The results of a visit. Every line reaches the disk before the next check starts."""
import json
import os
import pathlib
import threading
import time

# pass and fail are checks; figure is a measurement, which may have a target; skip is what this
# machine cannot do; cut is what a time limit or a signal ended.
STATES = ("pass", "fail", "figure", "skip", "cut")


class Book:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "results.jsonl"
        self.lines = []
        if self.path.exists():
            for text in self.path.read_text().splitlines():
                try:
                    self.lines.append(json.loads(text))
                except json.JSONDecodeError:
                    pass  # the visit was cut off in the middle of this line
            # What an unfinished stage noted is measured again.
            done = {line["stage"] for line in self.lines if line["state"] == "finished"}
            self.lines = [line for line in self.lines if line["stage"] in done]
            self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        self.stage = 0
        self.lock = threading.Lock()

    def _append(self, line):
        with self.lock, open(self.path, "a") as file:
            self.lines.append(line)
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finished(self, stage):
        return any(line["stage"] == stage and line["state"] == "finished" for line in self.lines)

    def begin(self, stage, name):
        self.stage = stage
        self.began = time.monotonic()
        self._append({"stage": stage, "state": "begun", "what": name})
        print(f"stage {stage}: {name}", flush=True)

    def finish(self):
        seconds = round(time.monotonic() - self.began, 1)
        self._append({"stage": self.stage, "state": "finished", "what": "", "seconds": seconds})

    def note(self, state, what, text="", **figures):
        """Notes one result. `figures` are value, unit, target (a text such as ">= 0.45") and what
        else the stage knows; a figure with a target is short if the target is not reached."""
        assert state in STATES, state
        line = {"stage": self.stage, "state": state, "what": what, "text": text, **figures}
        if figures.get("target"):
            line["reached"] = reaches(figures["value"], figures["target"])
        self._append(line)
        mark = " (short of its target)" if line.get("reached") is False else ""
        value = f" {figures['value']:.4g} {figures.get('unit', '')}" if "value" in figures else ""
        print(f"  {state:6} {what}{value}{mark}{': ' + text if text else ''}", flush=True)

    def value(self, what):
        """Returns the value of the last figure of that name, or None."""
        for line in reversed(self.lines):
            if line["what"] == what and "value" in line:
                return line["value"]
        return None

    def good(self, stages):
        """Whether these stages were finished, and nothing in them failed or was cut off."""
        chosen = {int(stage) for stage in stages}
        return all(self.finished(stage) for stage in chosen) and not any(
            line["state"] in ("fail", "cut") for line in self.lines if line["stage"] in chosen)


def reaches(value, target):
    relation, bound = target.split()
    return value >= float(bound) if relation == ">=" else value <= float(bound)
