# SPDX-License-Identifier: Apache-2.0
"""Stage 7: `calibrate` writes a machine file of this machine, which has no gap, and `predict` prices
the runs of stage 3 with it."""
import json
import shutil

from . import models
from .training import PLAIN, micro_key


def run(v):
    out = v.book.folder / "machine.json"
    of_stage_4 = v.book.folder / "kernels.json"
    if not v.on_gpu and of_stage_4.exists():
        shutil.copy(of_stage_4, out)  # a rehearsal need not measure twice
    else:
        quick = [] if v.on_gpu else ["--quick"]
        o = v.execute(v.command("calibrate", "--out", str(out), "--disk", str(v.work), *quick), 240)
        if not v.check("calibrate", o.status == 0 and out.exists(), o.why()):
            return
    o = v.execute(v.command("machine", "check", str(out)), 30)
    v.check("machine check", o.status == 0, o.why())
    products = [us for p in json.loads(out.read_text())["device"].get("products", [])
                for *_, us in p["m_n_k_batch_us"]]
    v.check("every product has a time", products != [] and min(products) > 0,
            f"{len(products)} points, {sum(us <= 0 for us in products)} without a time")
    for name in v.models:
        predict(v, name, out)


def predict(v, name, machine):
    measured = v.book.value(f"{name}, stage 0: tokens/s")
    if measured is None:
        return v.skip(f"{name}: predicted / measured", "stage 3 measured no speed")
    text = next(line["text"] for line in reversed(v.book.lines)
                if line["what"] == f"{name}, stage 0: tokens/s")
    sets = models.sets(v, name) + PLAIN + [micro_key(text.split()[-1])]
    o = v.execute(v.command("predict", v.deck(name), "--machine", str(machine), "--format", "json",
                            sets=sets), 60)
    if v.check(f"{name}: predict", o.status == 0, o.why()):
        point = json.loads(o.text)["points"][0]
        v.figure(f"{name}: predicted / measured", point["tokens_per_s"] / measured)
