"""Bar: generated programs, run under an opcode trace, do nothing that the facts do not have.

Every global read before it is bound is a read; every binding and deletion that is left is a write or deletion;
every name whose value differs afterwards is written or deleted; names in `kills` are never read first; what
"must" happen does, when the program ends normally. Usage: trace_fuzz.py FACTS_BINARY [programs] [seed]
"""

import contextlib
import io
import json
import random
import signal
import subprocess
import sys

sys.argv, arguments = sys.argv[:1], sys.argv[1:]
import trace
from sessions_fuzz import MISSING, deep

NAMES = ["a", "b", "c", "xs", "m", "f", "g", "K", "o"]


class Gen:
    def __init__(self, rng):
        self.rng = rng

    def name(self):
        return self.rng.choice(NAMES[:3])

    def expr(self, depth=0):
        r, n = self.rng, self.name
        leaf = [lambda: str(r.randrange(9)), n, n, lambda: "len(xs)", lambda: "m.get('k', 0)", lambda: "sum(xs)"]
        if depth > 2:
            return r.choice(leaf)()
        e = lambda: self.expr(depth + 1)
        return r.choice(leaf + [
            lambda: f"({e()} + {e()})", lambda: f"({e()} if {e()} else {e()})", lambda: f"({n()} := {e()})",
            lambda: f"({e()} and {e()})", lambda: f"({e()} or ({n()} := {e()}))", lambda: f"sum([i + {e()} for i in xs])",
            lambda: f"len([({n()} := i) for i in xs if i > {e()}])", lambda: f"sum(i * {n()} for i in xs)",
            lambda: f"(lambda q, w={e()}: q + w + {n()})({e()})", lambda: f"len({{i: {e()} for i in xs}})",
            lambda: f"f({e()})", lambda: f"int(f'{{{n()}:>{{{n()} % 9 + 1}}}}'.strip() or 0)", lambda: f"[{e()}, {e()}][0]",
            lambda: f"K().v", lambda: f"max(xs, default={e()})",
        ])()

    def block(self, depth, loop=False, function=False):
        return [line for _ in range(self.rng.choice([1, 1, 2])) for line in self.statement(depth + 1, loop, function)]

    def statement(self, depth=0, loop=False, function=False):
        r, n, e = self.rng, self.name, self.expr
        indent = lambda lines: ["    " + line for line in lines]
        simple = [
            lambda: [f"{n()} = {e()}"], lambda: [f"{n()} += {e()}"], lambda: [f"{n()} = {n()} = {e()}"],
            lambda: [f"{n()}, *xs = [{e()}, {e()}]"], lambda: [f"xs.append({e()})"], lambda: [f"m['k'] = {e()}"],
            lambda: [f"{n()}: int = {e()}"], lambda: [f"del {n()}"], lambda: ["ys = xs", "ys.append(1)"],
            lambda: [f"assert {e()} >= 0"], lambda: [f"xs[:1] = [{e()}]"], lambda: ["del m['k']"], lambda: [f"print({e()})"],
            lambda: [f"o.v = {e()}"], lambda: ["m.clear()"], lambda: [f"{n()} = g"], lambda: [f"xs += [{e()}]"],
            lambda: ["for m['z'] in xs: pass"], lambda: ["import math as c"], lambda: [f"m.setdefault('l', []).append({e()})"],
            lambda: ["m['xs'] = xs"], lambda: ["(m.get('xs') or []).append(5)"], lambda: ["zs = [xs]", "zs[0].append(4)"],
            lambda: [f"globals()['{n()}'] = {r.randrange(9)}"], lambda: [f"exec('{n()} = {n()} + 1')"],
        ]
        if loop:
            simple += [lambda: ["break"], lambda: ["continue"], lambda: [f"if {e()}:", "    break"]]
        if function:
            simple += [lambda: [f"return {e()}"]]
        if depth > 2:
            return r.choice(simple)()
        b = lambda loop=loop: indent(self.block(depth, loop, function))
        compound = [
            lambda: [f"if {e()}:", *b()], lambda: [f"if {e()}:", *b(), "else:", *b()],
            lambda: [f"if {e()}:", *b(), f"elif {e()}:", *b(), "else:", *b()],
            lambda: [f"for {n()} in xs[:3]:", *b(True)], lambda: [f"for {n()} in xs[:3]:", *b(True), "else:", *b()],
            lambda: ["for _ in range(2):", *b(True)],
            lambda: ["try:", *b(), f"except Exception as {n()}:", *b()],
            lambda: ["try:", *b(), "except ZeroDivisionError:", *b(), "else:", *b(), "finally:", *b(False)],
            lambda: ["try:", *b(), "    1 / 0", "except ZeroDivisionError:", *b()],
            lambda: ["import contextlib", "with contextlib.suppress(Exception):", *b(), "    raise ValueError"],
            lambda: ["import contextlib", f"with contextlib.nullcontext({e()}) as {n()}:", *b()],
            lambda: [f"match {e()}:", "    case 0:", *indent(b()), f"    case {n()} if {e()}:", *indent(b())],
            lambda: ["match [1, {'k': 2}, 3]:", f"    case [{n()}, {{'k': b, **c}}, *a]:" if r.random() < .5 else f"    case [1, *{n()}]:", *indent(b())],
            lambda: [f"while {e()} > 5:", *b(True), "    break"],
            lambda: ["while True:", *b(True), "    break"],
            lambda: [f"def f(q, w={e()}):", *indent(self.function(depth))],
            lambda: ["def g(s):", "    s.append(3)", "    return s", "g(xs)"],
            lambda: ["class K:", *indent(self.body(depth))],
            lambda: [f"f({e()})"], lambda: ["o = K()"], lambda: ["o.bump()"], lambda: ["list(map(f, xs))"],
            lambda: ["@(lambda h: h)", f"def f(q):", *indent(self.function(depth))],
        ]
        return r.choice(r.choice([simple, compound]))()

    def function(self, depth):
        head = self.rng.choice([[], [], [f"global {self.name()}, b"], ["z = xs"], ["z = m", "z['q'] = 1"]])
        inner = ["def h():", f"    nonlocal q", f"    q = q + {self.name()}", "h()"] if self.rng.random() < 0.2 else []
        return head + inner + self.block(depth + 1, False, True) + [f"return {self.expr(2)}"]

    def body(self, depth):
        name = self.name()
        return self.rng.choice([
            [f"v = {self.expr(1)}"], [f"{name} = {name}", f"v = {name}"], [f"v = 1", "ws = [v for v in xs]"],
            [f"if {self.expr(1)}:", f"    {name} = 1", f"v = {name}"], [f"global {name}", f"{name} = 4", "v = 0"],
        ]) + ["def bump(self):", *("    " + line for line in self.block(depth + 1, False, True))]

    def program(self):
        return "\n".join(line for _ in range(self.rng.choice([1, 2, 3, 4])) for line in self.statement())


SETUP = """
def f(q, w=0): return q
def g(s): return s
class K:
    v = 1
    def bump(self): pass
o = K()
"""


class Enough(BaseException):
    """The program runs for ever. No handler of a generated program catches this."""


def enough(*_):
    raise Enough


def observe(source, rng):
    namespace = {"__name__": "__main__", "a": rng.randrange(9), "b": rng.randrange(9), "c": rng.randrange(3),
                 "xs": [rng.randrange(9) for _ in range(rng.randrange(4))], "m": {"k": rng.randrange(9), "xs": [1]}}
    exec(SETUP, namespace)
    before = {key: deep(value) for key, value in namespace.items() if not key.startswith("__")}
    events = []

    def event(kind, name):
        events.append((kind, name))
        if len(events) > 20000:
            raise Enough

    # Again and again: a `finally` that leaves its loop takes an exception with it.
    signal.signal(signal.SIGALRM, enough)
    signal.setitimer(signal.ITIMER_REAL, 2, 0.1)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            error = trace.run(source, namespace, event)
    except Enough as raised:
        error = raised
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    after = {key: deep(value) for key, value in namespace.items() if not key.startswith("__")}
    return before, after, events, error


def main():
    binary = arguments[0]
    count = int(arguments[1]) if len(arguments) > 1 else 3000
    seed = arguments[2] if len(arguments) > 2 else "1"
    programs = []
    while len(programs) < count:
        rng = random.Random(f"{seed}/{len(programs)}")
        generator = Gen(random.Random(f"{seed}:{len(programs)}"))
        for _ in range(50):
            source = generator.program()
            try:
                compile(source, "p", "exec")
                break
            except SyntaxError:
                source = "pass"
        programs.append((source, rng))
    text = "".join(json.dumps({"lang": "py", "src": source}) + "\n" for source, _ in programs)
    answers = subprocess.run([binary], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    wrong = runs = completed = 0
    for number, ((source, rng), answer) in enumerate(zip(programs, answers, strict=True)):
        facts = json.loads(answer)
        reads, writes, deletes = facts["reads"], facts["writes"], facts["deletes"]
        if any(reason["effect"] & 14 for reason in facts.get("uncertain", [])):
            continue
        faults = set()
        for _ in range(4):
            before, after, events, error = observe(source, rng)
            runs += 1
            completed += error is None
            bound = set()
            for kind, name in events:
                if kind == "R":
                    # What was stored by a dictionary is not seen by the trace.
                    if name not in bound and name not in reads and "globals()" not in source and "exec(" not in source:
                        faults.add(f"reads {name}")
                    if name in facts["kills"] and name not in bound and "globals()" not in source and "exec(" not in source:
                        faults.add(f"kill {name} is read first")
                else:
                    bound.add(name)
            for name in before.keys() | after.keys():
                if before.get(name, MISSING) != after.get(name, MISSING) and name not in writes and name not in deletes:
                    faults.add(f"changes {name}")
            if error is None:
                for name, write in writes.items():
                    if write["certainty"] == "must" and set(write["kinds"]) & {"bind", "import", "define"} and name not in after:
                        faults.add(f"does not write {name}")
                for name, delete in deletes.items():
                    if delete["certainty"] == "must" and name in after:
                        faults.add(f"does not delete {name}")
        if faults:
            wrong += 1
            if wrong <= 6:
                print(f"program {number}: {sorted(faults)}")
                print("    " + source.replace("\n", "\n    "))
    print(f"{count} programs, {runs} runs, {completed} of them end normally: {wrong} programs do what the facts do not have")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
