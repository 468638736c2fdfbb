"""Bar: hand-made cases, kept outside of the repository, are answered soundly and few are over-flagged.

A case is `{id, code, r, w, d, u}`: names read, written, deleted, and whether something is uncertain. An
answer is unsound when it misses one of these; it is over-flagged when it adds a fact that is more than
possible (names of the language apart), or an uncertain reason with an effect.
Usage: cases.py FACTS_BINARY CASES.json LANGUAGE MOST_OVER_FLAGGED
"""

import json
import subprocess
import sys


def missing(case, facts):
    lost = [f"R {name}" for name in case["r"] if name not in facts["reads"]]
    lost += [f"W {name}" for name in case["w"] if name not in facts["writes"]]
    lost += [f"D {name}" for name in case["d"] if name not in facts["deletes"]]
    if case["u"] and not facts.get("uncertain"):
        lost.append("uncertain")
    return lost


def extra(case, facts):
    def sure(fact):
        return fact["certainty"] != "possible"

    added = [
        f"R {name}"
        for name, read in facts["reads"].items()
        if name not in case["r"] and not read.get("builtin") and sure(read)
    ]
    added += [f"W {name}" for name, write in facts["writes"].items() if name not in case["w"] and sure(write)]
    added += [f"D {name}" for name, gone in facts["deletes"].items() if name not in case["d"] and sure(gone)]
    if not case["u"] and any(reason["effect"] for reason in facts.get("uncertain", [])):
        added.append("uncertain")
    return added


def main():
    binary, path, language, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)
    lines = "".join(json.dumps({"lang": language, "src": case["code"]}) + "\n" for case in cases)
    answers = subprocess.run([binary], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    unsound = over = 0
    for case, answer in zip(cases, answers, strict=True):
        facts = json.loads(answer)
        lost, added = missing(case, facts), extra(case, facts)
        unsound += bool(lost)
        over += not lost and bool(added)
        if lost:
            print(f"  unsound {case['id']} {case['code']!r}: misses {lost}")
        elif added:
            print(f"  over-flagged {case['id']} {case['code']!r}: adds {added}")
    print(f"{path}: {len(cases)} cases, {unsound} unsound, {over} over-flagged (at most {most})")
    sys.exit(unsound > 0 or over > most)


main()
