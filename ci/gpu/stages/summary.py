# SPDX-License-Identifier: Apache-2.0
"""One page that says what a visit saw: what failed or was cut off, what fell short, all figures."""
import time

MOST_LINES = 110


def write(book, visit):
    text = page(book, visit)
    (book.folder / "summary.txt").write_text(text)
    return text


def page(book, visit):
    of = lambda state: [line for line in book.lines if line["state"] == state]
    title = "Visit to a GPU" if visit.on_gpu else "Rehearsal without a GPU: figures mean nothing"
    lines = [f"{title}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, pack of commit "
             f"{visit.pack['commit'][:12]} for {visit.pack['device']}",
             f"{len(of('pass'))} checks passed, {len(of('fail'))} failed, {len(of('cut'))} cut off, "
             f"{len(of('skip'))} skipped"]
    for stage in of("begun"):
        finished = [line for line in of("finished") if line["stage"] == stage["stage"]]
        took = f"{finished[-1]['seconds']:.0f} s" if finished else "not finished"
        lines.append(f"  stage {stage['stage']}: {stage['what']}: {took}")
    sections = [("Failed", of("fail")), ("Cut off", of("cut")),
                ("Short of the target", [f for f in of("figure") if f.get("reached") is False]),
                ("Figures", [f for f in of("figure") if f.get("reached") is not False]),
                ("Skipped", of("skip"))]
    for name, entries in sections:
        if entries:
            lines.append(f"{name}:")
            lines += [f"  {entry(line)}" for line in entries]
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES + 1
        lines = lines[:MOST_LINES - 1] + [f"  and {more} lines more in results.jsonl"]
    return "\n".join(line[:160] for line in lines) + "\n"


def entry(line):
    value = f" {line['value']:.4g} {line.get('unit', '')}".rstrip() if "value" in line else ""
    target = f" (target {line['target']})" if line.get("target") else ""
    return f"{line['stage']} {line['what']}:{value}{target} {line.get('text', '')}".rstrip()
