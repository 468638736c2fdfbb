"""Bar: a document that is run once, from top to bottom, has few results that are not fresh: at most 8 % in
Python and 20 % in R, in the document's order. By the state of the namespace at the end most are not, and that is
only shown.
Usage: linear.py SESSIONS_BINARY CELLS.jsonl …
"""

import collections
import json
import subprocess
import sys

MOST = {("py", "document_order"): 8, ("r", "document_order"): 20}


def documents(path):
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            cell = json.loads(line)
            found[cell["id"].split("#")[0]].append(cell)
    return [cells for cells in found.values() if len(cells) > 1]


def main():
    binary, failed = sys.argv[1], False
    for path in sys.argv[2:]:
        found = documents(path)
        language = found[0][0]["lang"]
        for policy in ("document_order", "current_state"):
            lines = "".join(
                json.dumps({
                    "lang": language,
                    "policy": policy,
                    "runs": [{"cell": cell["id"], "src": cell["src"]} for cell in cells],
                }) + "\n"
                for cells in found
            )
            out = subprocess.run([binary], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
            verdicts = collections.Counter(
                run["verdict"] for line in out.splitlines() for run in json.loads(line)
            )
            runs = sum(verdicts.values())
            doubted = runs - verdicts["fresh"] - verdicts["superseded"]
            percent = 100 * doubted / max(runs, 1)
            most = MOST.get((language, policy))
            failed |= most is not None and percent > most
            bar = f"at most {most} %" if most is not None else "no bar"
            print(f"{path} {policy}: {len(found)} documents, {runs} runs, {percent:.1f} % not fresh ({bar}); {dict(verdicts)}")
    sys.exit(failed)


main()
