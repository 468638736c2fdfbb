"""Bar: no cell misses what CPython's own compiler says of it.

For every cell that compiles, the code objects (dis) and the symbol table give lower bounds: a name that is
loaded as a global and nowhere bound in the cell is a read; a name that is stored or deleted is written or
deleted. Usage: bounds_py.py FACTS_BINARY CELLS.jsonl …
"""

import __future__

import ast
import dis
import json
import subprocess
import symtable
import sys
import types
import unicodedata

from trace import IMPLICIT


def walk(code, deferred, out):
    optimized = bool(code.co_flags & 1)
    module = code.co_name == "<module>"
    for instruction in dis.get_instructions(code):
        op, name = instruction.opname, instruction.argval
        if op in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
            if op != "LOAD_NAME" or module:
                out["loads"].add(name)
            elif not optimized:
                out["class_loads"].add(name)
        elif op == "STORE_GLOBAL" or (module and op == "STORE_NAME"):
            out["deferred_stores" if deferred else "stores"].add(name)
        elif op == "DELETE_GLOBAL" or (module and op == "DELETE_NAME"):
            out["deferred_dels" if deferred else "dels"].add(name)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            now = not inner.co_flags & 1 or inner.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>")
            walk(inner, deferred or not (now or inner.co_name.startswith("<generic")), out)


def bounds(source):
    out = {key: set() for key in ("loads", "class_loads", "stores", "deferred_stores", "dels", "deferred_dels")}
    walk(compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), False, out)
    return out


def check(source, facts):
    try:
        known = bounds(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    reads, writes, deletes = set(facts["reads"]), set(facts["writes"]), set(facts["deletes"])
    every = {name for function in facts.get("functions", {}).values() for name in function.get("writes", {})}
    every |= {name for function in facts.get("functions", {}).values() for name in function.get("deletes", {})}
    bound = known["stores"] | known["deferred_stores"] | known["dels"]
    missing = [f"R {name}" for name in known["loads"] - bound - reads - IMPLICIT]
    missing += [f"W {name}" for name in known["stores"] - writes - deletes if name not in IMPLICIT]
    missing += [f"D {name}" for name in known["dels"] - deletes - writes]
    # No more than said: what no code object mentions is a false fact (names in strings apart).
    mentioned = known["loads"] | known["class_loads"]
    false_reads = {
        name
        for name, read in facts["reads"].items()
        if read["certainty"] != "possible" and read["via"] != "text" and name not in mentioned
    }
    false_writes = {
        name
        for name, write in facts["writes"].items()
        if set(write["kinds"]) & {"bind", "import", "define"} and name not in known["stores"] | known["deferred_stores"]
    }
    return missing, sorted(false_reads), sorted(false_writes), sorted(known["deferred_stores"] - every - writes)


def main():
    binary, failed = sys.argv[1], False
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as lines:
            cells = [json.loads(line) for line in lines]
        with open(path, "rb") as stdin:
            answers = subprocess.run([binary], stdin=stdin, stdout=subprocess.PIPE, check=True).stdout.splitlines()
        checked = incomplete = false_reads = false_writes = flagged = unflagged = 0
        for cell, answer in zip(cells, answers, strict=True):
            facts = json.loads(answer)
            result = check(cell["src"], facts)
            if result is None:
                unflagged += not facts.get("uncertain", []) and facts["dialect"] == "plain"
                continue
            checked += 1
            barrier = any(reason["effect"] & 14 and reason["scope"] == "all" for reason in facts.get("uncertain", []))
            flagged += barrier
            missing, wrong_reads, wrong_writes, _ = result
            if missing:
                incomplete += 1
                print(f"  misses {cell['id']}: {missing[:6]}")
            if wrong_reads:
                false_reads += 1
                if false_reads <= 8:
                    print(f"  false read {cell['id']}: {wrong_reads[:6]}")
            if wrong_writes:
                false_writes += 1
                if false_writes <= 8:
                    print(f"  false write {cell['id']}: {wrong_writes[:6]}")
        print(
            f"{path}: {checked} cells compile, {incomplete} miss a fact, false reads in {false_reads}, false writes in"
            f" {false_writes}, uncertain about everything {flagged} ({100 * flagged / max(checked, 1):.1f} %),"
            f" {unflagged} cells that do not compile are not flagged"
        )
        # A library's own modules star-import and execute code for a living; the bar is for cells.
        failed |= incomplete > 0 or ("cells" in path and flagged > checked / 50)
    sys.exit(failed)


main()
