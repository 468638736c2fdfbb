"""Bar: a document that is run once, from top to bottom, has few results that are not fresh: at most 8 % in
Python and 20 % in R, in the document's order. By the state of the namespace at the end many are not, for notebooks
use their names again. Beside that figure stands its floor: runs that read a name which a later cell of another source
binds or assigns into, at the top and by `=` alone, with what is made from them. No analysis that is right can go below it; equal values apart.
Usage: linear.py SESSIONS_BINARY CELLS.jsonl …
"""

import ast
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


def names_of(source):
    """The names that a cell reads before it binds them and those that its own statements bind, as Python's parser
    and nobody else sees them; only what stands at the top of the cell."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set(), set()
    reads, binds = set(), set()
    for statement in body:
        if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
            inner = [node for node in ast.walk(statement) if isinstance(node, ast.Lambda | COMPREHENSIONS)]
            hidden = {id(node) for outer in inner for node in ast.walk(outer)}
            used = {node.id for node in ast.walk(statement)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in hidden}
            reads |= used - binds
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                for name in names:
                    while isinstance(name, ast.Attribute | ast.Subscript):
                        name = name.value
                    binds |= {name.id} if isinstance(name, ast.Name) else set()
        if isinstance(statement, ast.Import | ast.ImportFrom):
            binds -= {(name.asname or name.name).split(".")[0] for name in statement.names}
    return reads, binds


COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def floor(cells):
    """How many runs read a name that a later cell binds anew, or what such a run made."""
    facts = [names_of(cell["src"]) for cell in cells]
    maker, stale, needs = {}, set(), []
    for reads, binds in facts:
        needs.append({maker[name] for name in reads if name in maker})
        maker.update(dict.fromkeys(binds, len(needs) - 1))
    for at, (reads, _) in enumerate(facts):
        later = set().union(*(binds for binds in (facts[other][1] for other in range(at + 1, len(facts))
                                                  if cells[other]["src"] != cells[at]["src"])))
        bound = {name for name in reads if any(name in facts[before][1] for before in range(at))}
        if bound & later or needs[at] & stale:
            stale.add(at)
    return len(stale)


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
            if language == "py" and policy == "current_state":
                bar += f", floor {100 * sum(map(floor, found)) / max(runs, 1):.1f} %"
            print(f"{path} {policy}: {len(found)} documents, {runs} runs, {percent:.1f} % not fresh ({bar}); {dict(verdicts)}")
    sys.exit(failed)


main()
