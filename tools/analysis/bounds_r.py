"""Bar: R cells against codetools. Usage: bounds_r.py FACTS_BINARY CELLS.jsonl ORACLE.jsonl (see bounds_r.R).

A name that codetools finds bound is written or deleted; a free variable is a read. codetools does not know
the order of things, so a name that is also bound in the cell is no lower bound on reads. False writes are
names that codetools does not find bound and that no call names in a string; false reads are sure reads of
names that codetools does not find free. What codetools counts and we do not, with the reason of each, is in
explained_r.txt; any other miss fails.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys


def explained():
    path = pathlib.Path(__file__).with_name("explained_r.txt")
    lines = [line.split(" ", 2) for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {(cell, name) for cell, names, _ in lines for name in names.split(",")}


def main():
    known_differences = explained()
    binary, cells_path, oracle_path = sys.argv[1:4]
    with open(cells_path, encoding="utf-8") as lines:
        cells = [json.loads(line) for line in lines]
    with open(oracle_path, encoding="utf-8") as lines:
        oracle = [json.loads(line) for line in lines]
    with open(cells_path, "rb") as stdin:
        answers = subprocess.run([binary], stdin=stdin, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    count = collections.Counter()
    shown = collections.Counter()

    def show(kind, cell, names):
        count[kind] += 1
        shown[kind] += 1
        if shown[kind] <= 40:
            print(f"  {kind} {cell['id']}: {sorted(names)[:6]}")

    for cell, known, answer in zip(cells, oracle, answers, strict=True):
        facts = json.loads(answer)
        uncertain = facts.get("uncertain", [])
        if not known["ok"]:
            count["invalid"] += 1
            if not uncertain:
                show("invalid but not flagged", cell, [])
            continue
        count["cells"] += 1
        barrier = any(reason["effect"] & 14 and reason["scope"] == "all" for reason in uncertain)
        count["uncertain"] += barrier
        if any(reason["code"] in ("syntax_error", "silent_syntax") for reason in uncertain):
            show("valid but flagged as an error", cell, [reason["code"] for reason in uncertain])
        reads, writes, deletes = facts["reads"], facts["writes"], facts["deletes"]
        bound, free = set(known["W"]), set(known["V"]) | set(known["F"])
        # `:=`, the braces of `DT[…]` and `data()` are not what codetools takes them for.
        masked = set(re.findall(r"([\w.]+)[`\"]?\s*:=", cell["src"]))
        masked |= set(re.findall(r"\bdata\(\s*[\"']?([\w.]+)", cell["src"]))
        missing = {f"W {name}" for name in bound if name not in writes and name not in deletes}
        missing |= {
            f"R {name}" for name in known["V"] 
            if name not in reads and name not in writes
            and name not in bound | masked
            and not name.startswith(("..", ".GlobalEnv"))
            and name != "."
        }
        different = {fact for fact in missing if (cell["id"], fact.split(" ", 1)[1]) in known_differences}
        count["explained"] += bool(different)
        if missing - different:
            show("misses", cell, missing - different)
        false_writes = {
            name
            for name, write in writes.items()
            if write["certainty"] != "possible"
            and set(write["kinds"]) & {"bind", "define"}
            and name not in bound
            and f'"{name}"' not in cell["src"]
            and f"'{name}'" not in cell["src"]
            and not name.startswith(".__C__")
            and not re.search(r"\bdata\([^)]*\b" + re.escape(name), cell["src"])
        }
        if false_writes:
            show("false write", cell, false_writes)
        false_reads = {
            name
            for name, read in reads.items()
            if read["certainty"] != "possible" and read["via"] not in ("text", "mask") and name not in free and name not in bound
        }
        if false_reads:
            show("false read", cell, false_reads)
    total = max(count["cells"], 1)
    for kind in ("misses", "explained", "false write", "false read", "valid but flagged as an error", "uncertain"):
        print(f"{kind}: {count[kind]} of {total} cells ({100 * count[kind] / total:.2f} %)")
    print(f"not flagged: {count['invalid but not flagged']} of {count['invalid']} cells that R rejects")
    sys.exit(count["misses"] > 0 or count["false write"] > total / 100 or count["false read"] > total / 20 or count["uncertain"] > total / 20)


main()
