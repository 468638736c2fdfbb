"""Bar: random sessions with edits and re-runs. No result is called fresh whose inputs differ from what the run
saw; few are flagged whose inputs do not.

The truth is CPython's: every cell runs under an opcode trace, and each global that it reads before it binds
it is kept by deep value. At the end a run is stale when one of these values is another now (the run's own
changes apart). Usage: sessions_fuzz.py SESSIONS_BINARY [sessions] [seed] [--kinds=plain,functions,dynamic] [--static]
[--show] [--flags]

The worker's own reports of what became of the names go with the runs; `--static` leaves them out. `--kinds` says of
which statements the cells are made: the bar without dynamic code is 8 %, that with it (`exec`, `globals()`) 35 %.
"""

import collections
import json
import pathlib
import random
import subprocess
import sys
import types

import trace

NAMES = ["a", "b", "c", "d", "e"]
LISTS = ["xs", "ys", "zs"]
DICTS = ["m", "n"]
FUNCS = ["f", "g", "h"]
CLASSES = ["K", "L"]
OBJECTS = ["o", "p"]


class Gen:
    def __init__(self, rng, kinds):
        self.rng, self.kinds = rng, kinds

    def pick(self, names):
        return self.rng.choice(names)

    def num(self):
        # Mostly unlike each other, so that another value is seen as one.
        return str(self.rng.randrange(100_000) if self.rng.random() < 0.9 else self.rng.randrange(3))

    def scalar(self):
        a, xs, m = self.pick(NAMES), self.pick(LISTS), self.pick(DICTS)
        return self.rng.choice([
            self.num(), a, f"{a} + {self.num()}", f"{a} * {self.pick(NAMES)}", f"len({xs})", f"sum({xs})",
            f"{m}.get('k', 0)", f"max({xs} or [0])", f"({a} if {self.pick(NAMES)} > 1 else {self.num()})",
            f"sum(v for v in {xs} if v > {a})", f"len({m})",
        ])

    def sequence(self):
        a, xs = self.pick(NAMES), self.pick(LISTS)
        return self.rng.choice([
            f"[{self.num()}, {a}]", f"[v + 1 for v in {xs}]", f"list({xs})", f"sorted({xs})", f"{xs} + [{a}]", xs,
            f"{xs}[:2]", f"[{self.num()}]", f"list(range({a} % 4))",
        ])

    def statement(self):
        r, a, b = self.rng, self.pick(NAMES), self.pick(NAMES)
        xs, ys, m = self.pick(LISTS), self.pick(LISTS), self.pick(DICTS)
        f, k, o = self.pick(FUNCS), self.pick(CLASSES), self.pick(OBJECTS)
        plain = [
            lambda: f"{a} = {self.scalar()}",
            lambda: f"{a} = {self.scalar()}",
            lambda: f"{xs} = {self.sequence()}",
            lambda: f"{a} += {self.num()}",
            lambda: f"{xs}.append({self.scalar()})",
            lambda: f"{xs} += [{self.num()}]",
            lambda: f"{m} = {{'k': {self.scalar()}}}",
            lambda: f"{m}['k'] = {self.scalar()}",
            lambda: f"{m}['l'] = {xs}",
            lambda: f"{m}.setdefault('l', []).append({self.num()})",
            lambda: f"if {a} > 1:\n    {b} = {self.scalar()}",
            lambda: f"for i in {xs}:\n    {a} = {a} + i",
            lambda: f"for i in range(2):\n    {xs}.append(i)",
            lambda: f"print({a}, {xs})",
            lambda: f"{a}, {b} = {self.scalar()}, {self.scalar()}",
            lambda: f"try:\n    {a} = {xs}[{self.rng.randrange(4)}]\nexcept IndexError:\n    {b} = 0",
            lambda: f"{xs}.sort()",
            lambda: f"{a} = {xs}.pop() if {xs} else 0",
            lambda: f"{ys} = {xs}",
            lambda: f"rows = [{xs}, {ys}]",
            lambda: f"for r in rows:\n    r.append({self.num()})",
            lambda: f"{xs} = rows[0]",
            lambda: f"{a} = {{**{m}}}.get('k', 1)",
            lambda: f"del {a}\n{a} = {self.num()}",
            lambda: f"{xs}[0:1] = [{a}]",
            lambda: f"with open('/dev/null') as t:\n    {a} = len(t.read()) + {b}",
            lambda: f"{a} = (lambda q: q + {b})({self.num()})",
            lambda: f"import math\n{a} = math.floor({b} / 2)",
            lambda: f"print([w for w in {xs} if (c := w) > 0])",
            lambda: f"{xs}.extend({ys})",
            lambda: f"import copy\n{xs} = copy.deepcopy({ys})",
            lambda: f"assert {a} is not None",
            lambda: f"{a} = next(iter({xs}), 0)",
        ]
        functions = [
            lambda: f"def {f}(q):\n    return q + {a}",
            lambda: f"def {f}(q):\n    {xs}.append(q)\n    return q",
            lambda: f"def {f}(q):\n    global {a}\n    {a} = q\n    return {b}",
            lambda: f"def {f}(q, w={a}):\n    return q + w",
            lambda: f"def {f}(q):\n    return {self.pick(FUNCS)}(q) if q < 0 else q",
            lambda: f"def {f}(q):\n    z = {xs}\n    z.append(q)\n    return len(z)",
            lambda: f"{a} = {f}({self.num()})",
            lambda: f"{f}({self.num()})",
            lambda: f"{b} = {f}({a})",
            lambda: f"{a} = sum(map({f}, [1, 2]))",
            lambda: f"def fill(s, v):\n    s.append(v)",
            lambda: f"fill({xs}, {self.num()})",
            lambda: f"def total(s):\n    return sum(s)",
            lambda: f"{a} = total({xs})",
            lambda: f"class {k}:\n    def __init__(self, v):\n        self.v = v\n    def bump(self):\n        self.v = self.v + {a}\n    def get(self):\n        return self.v",
            lambda: f"{o} = {k}({self.num()})",
            lambda: f"{o}.bump()",
            lambda: f"{a} = {o}.get()",
            lambda: f"def make():\n    s = [0]\n    def tick():\n        s[0] += 1\n        return s[0]\n    return tick",
            lambda: "tick = make()",
            lambda: f"{a} = tick()",
        ]
        dynamic = [
            lambda: f"exec('{a} = {self.num()}')",
            lambda: f"exec(\"{a}\" + \" = {self.num()}\")",
            lambda: f"globals()['{a}'] = {self.num()}",
            lambda: f"{a} = eval('{b} + 1')",
            lambda: f"{a} = globals()['{b}']",
        ]
        weighed = {"plain": [plain, plain], "functions": [functions], "dynamic": [dynamic]}
        return r.choice(r.choice([some for kind in self.kinds for some in weighed[kind]]))()

    def cell(self):
        return "\n".join(self.statement() for _ in range(self.rng.choice([1, 1, 2, 3])))


def deep(value, seen=()):
    """A value in depth, as something that compares."""
    if id(value) in seen:
        return "cycle"
    seen = (*seen, id(value))
    if isinstance(value, (int, float, str, bytes, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(deep(item, seen) for item in value))
    if isinstance(value, (set, frozenset)):
        return ("set", tuple(sorted(map(repr, value))))
    if isinstance(value, dict):
        return ("dict", tuple((repr(key), deep(item, seen)) for key, item in value.items()))
    if isinstance(value, types.FunctionType):
        cells = tuple(deep(cell.cell_contents, seen) for cell in value.__closure__ or ())
        return ("function", value.__code__.co_code, repr(value.__code__.co_consts).split(" at 0x")[0],
                value.__code__.co_names, deep(value.__defaults__, seen), cells)
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if isinstance(value, type):
        members = {key: item for key, item in vars(value).items() if not key.startswith("__") or key == "__init__"}
        return ("class", deep(members, seen))
    if hasattr(value, "__dict__"):
        return ("object", type(value).__name__, deep(vars(value), seen))
    return repr(value).split(" at 0x")[0]


MISSING = ("missing",)


def worker_names():
    """The worker's module that tells what became of the names."""
    path = pathlib.Path(__file__).parents[2] / "crates/agarose-kernel/workers/python/names.py"
    module = {"need": lambda name: None, "__name__": "names"}
    exec(compile(path.read_text(), str(path), "exec"), module)
    return module["Names"]


Names = worker_names()


def evidence(names):
    report = names.end().get("names")
    if report is None:
        return None
    values = {name: {"known": value} for name, value in report.get("known", {}).items()}
    for word in ("unknown", "unbound"):
        values.update((name, word) for name in report.get(word, ()))
    return {"number": report["number"], "values": values}


class Space(dict):
    """A namespace that notes what is bound by `globals()[...] =`, which no opcode tells."""

    bound = set()

    def __setitem__(self, key, value):
        self.bound.add(key)
        super().__setitem__(key, value)


def play(gen, rng):
    namespace = Space(__name__="__main__")
    prelude = "\n".join(
        [f"{name} = {number}" for number, name in enumerate(NAMES)] + [f"{name} = [{number + 7}, 2, {number + 5}]" for number, name in enumerate(LISTS)] + ["rows = [[9, 3], [4]]"]
        + [f"{name} = {{'k': 1}}" for name in DICTS] + [f"def {name}(q):\n    return q" for name in FUNCS]
        + [f"class {name}:\n    def __init__(self, v):\n        self.v = v\n    def bump(self):\n        self.v += 1\n    def get(self):\n        return self.v" for name in CLASSES]
        + [f"{name} = K(1)" for name in OBJECTS]
        + ["def make():\n    return lambda: 0\ntick = make()\ndef fill(s, v):\n    pass\ndef total(s):\n    return 0"]
    )
    count = rng.randrange(3, 8)
    cells = {f"c{n}": gen.cell() for n in range(count)}
    cells["start"] = prelude
    schedule = ["start"] + [f"c{n}" for n in range(count)]
    for _ in range(rng.randrange(0, 6)):
        name = f"c{rng.randrange(count)}"
        schedule.append((name, gen.cell()) if rng.random() < 0.4 else name)
    runs, snapshots = [], []
    names = Names(namespace)
    makers, needs, effects = {}, [], []
    for step in schedule:
        name, source = step if isinstance(step, tuple) else (step, cells[step])
        cells[name] = source
        seen = {}
        bound = namespace.bound = set()
        before = {key: deep(value) for key, value in namespace.items() if not key.startswith("__")}
        made_by = dict(makers)

        def event(kind, global_name):
            if kind == "R":
                if global_name not in bound and global_name not in seen:
                    seen[global_name] = deep(namespace.get(global_name, MISSING))
            else:
                bound.add(global_name)

        stdout, sys.stdout = sys.stdout, open("/dev/null", "w")
        try:
            error = trace.run(source, namespace, event)
        finally:
            sys.stdout.close()
            sys.stdout = stdout
        own = {key: deep(namespace.get(key, MISSING)) for key in seen}
        status = "failed" if error else "completed"
        runs.append({"cell": name, "src": source, "status": status, "evidence": evidence(names)})
        snapshots.append((seen, own))
        after = {key: deep(value) for key, value in namespace.items() if not key.startswith("__")}
        effects.append({key for key in before.keys() | after.keys() if before.get(key) != after.get(key)})
        changed_now = bound | {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        needs.append({made_by[key] for key in seen if key in made_by})
        for key in changed_now:
            # What is changed in place also needs whoever made it before.
            if key not in bound and key in makers:
                needs[-1].add(makers[key])
            makers[key] = len(runs) - 1
    latest = {run["cell"]: index for index, run in enumerate(runs)}
    truth, stale = {}, set()
    for index, (seen, own) in enumerate(snapshots):
        changed = [
            key for key, value in seen.items()
            if deep(namespace.get(key, MISSING)) not in (value, own[key])
        ]
        # What was made by a run that is itself stale would be made again.
        if changed or needs[index] & stale:
            stale.add(index)
        if index in latest.values():
            truth[index] = (changed, index in stale)
    return runs, truth, effects


def main():
    words = [word for word in sys.argv[2:] if not word.startswith("--")]
    count = int(words[0]) if words else 400
    seed = int(words[1]) if len(words) > 1 else 1
    show = "--show" in sys.argv
    kinds = next((word.split("=")[1] for word in sys.argv if word.startswith("--kinds=")), "plain,functions").split(",")
    most = 35 if "dynamic" in kinds else 8
    sessions = []
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        sessions.append(play(Gen(rng, kinds), rng))
    if "--static" in sys.argv:
        for runs, *_ in sessions:
            for run in runs:
                del run["evidence"]
    text = "".join(json.dumps({"lang": "py", "runs": runs}) + "\n" for runs, *_ in sessions)
    answers = subprocess.run([sys.argv[1]], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    causes = collections.Counter()
    stale = fresh = wrong = flagged = uncertain = transitive = equal = 0
    for number, ((runs, truth, effects), answer) in enumerate(zip(sessions, answers, strict=True)):
        verdicts = json.loads(answer)
        for index, (changed, through) in truth.items():
            verdict = verdicts[index]["verdict"]
            if verdict == "failed":
                continue
            if changed:
                stale += 1
                if verdict in ("fresh", "superseded"):
                    wrong += 1
                    print(f"WRONG FRESH session {number} run {index} {runs[index]['cell']}: {changed}")
                    if show or wrong <= 3:
                        for at, run in enumerate(runs[1:], 1):
                            print(f"  [{at} {run['cell']} {run['status']}] " + run["src"].replace("\n", "\n      "))
            elif through:
                transitive += 1
            else:
                fresh += 1
                if verdict in ("stale", "uncertain"):
                    flagged += 1
                    uncertain += verdict == "uncertain"
                    # Back to the change that is blamed: was it one, or did an equal value come out?
                    at, steps = index, 0
                    while "producer" in verdicts[at]["cause"]["through"] and steps < 100:
                        at, steps = verdicts[at]["cause"]["by_run"], steps + 1
                    blamed = verdicts[at]["cause"]
                    name = blamed["through"].get("name") if isinstance(blamed["through"], dict) else None
                    equal += name is not None and name not in effects[blamed["by_run"]]
                    causes[(verdict, next(iter(verdicts[index]["cause"]["through"])))] += 1
                    if "--flags" in sys.argv and flagged <= 12:
                        print(f"FLAGGED {verdict} session {number} run {index} {runs[index]['cell']}: {verdicts[index]}")
                        for at, run in enumerate(runs[1:], 1):
                            print(f"  [{at} {run['cell']} {run['status']}] " + run["src"].replace("\n", "\n      "))
    print(
        f"{count} sessions: {stale} stale, {wrong} of them called fresh; {transitive} made from stale"
        f" inputs; {fresh} fresh, {flagged} of them flagged"
        f" ({100 * flagged / max(fresh, 1):.1f} %; {equal} of these because an equal value was"
        f" written, {100 * (flagged - equal) / max(fresh, 1):.1f} % without; {uncertain} only as uncertain)"
    )
    print("flagged through:", dict(causes))
    sys.exit(wrong > 0 or 100 * flagged > most * fresh)


if __name__ == "__main__":
    main()
