"""Bar: generated R programs, run with active bindings, touch no name that the facts do not have.

Usage: trace_r.py FACTS_BINARY [programs] [seed]. Needs Rscript with jsonlite.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

# What R itself keeps in the session.
OWN = {".Random.seed", ".GlobalEnv", ".Last.value"}


class Gen:
    def __init__(self, rng):
        self.rng = rng

    def expr(self, depth=0):
        r = self.rng
        name = lambda: r.choice(["a", "b", "n"])
        vector = lambda: r.choice(["xs", "ys", "dat$u", "m$k"])
        leaf = [lambda: str(r.randrange(9)), name, name, lambda: f"length({vector()})", lambda: f"sum({vector()})", lambda: "m$k"]
        if depth > 2:
            return r.choice(leaf)()
        e = lambda: self.expr(depth + 1)
        return r.choice(leaf + [
            lambda: f"({e()} + {e()})", lambda: f"(if ({e()} > 2) {e()} else {e()})", lambda: f"({name()} <- {e()})",
            lambda: f"f({e()})", lambda: f"(function(q, w = {name()}) q + w)({e()})", lambda: f"(\\(q) q + {name()})({e()})",
            lambda: f"sum(sapply(xs, function(i) i + {name()}))", lambda: f"Reduce(`+`, {vector()}, {e()})",
            lambda: f"with(dat, sum(u) + {name()})", lambda: f"local({{ {name()} <- {e()}; {name()} }})",
            lambda: f"max(c({e()}, {e()}))", lambda: f"get(\"{name()}\")", lambda: f"({e()} |> sum())",
            lambda: f"switch(as.character({name()}), \"3\" = {e()}, {e()})", lambda: f"ifelse({e()} > 1, {e()}, {e()})",
            lambda: f"eval(quote({name()} + 1))", lambda: f"do.call(\"sum\", list({e()}, {e()}))",
            lambda: f"tryCatch({e()}, error = function(x) {name()})", lambda: f"isTRUE({e()} > 1 && {e()} > 0) + 0",
            lambda: f"vapply(m, function(v) v + {name()}, 1)[[1]]", lambda: f"nrow(subset(dat, v > {name()}))",
        ])()

    def block(self, depth):
        return "{ " + "; ".join(self.statement(depth + 1) for _ in range(self.rng.choice([1, 1, 2]))) + " }"

    def statement(self, depth=0):
        r, e = self.rng, self.expr
        name = lambda: r.choice(["a", "b", "n", "fresh", "other"])
        vector = lambda: r.choice(["xs", "ys"])
        simple = [
            lambda: f"{name()} <- {e()}", lambda: f"{e()} -> {name()}", lambda: f"{name()} = {e()}", lambda: f"{vector()}[1] <- {e()}",
            lambda: f"{vector()}[[2]] <- {e()}", lambda: f"m$k <- {e()}", lambda: f"m[[\"z\"]] <- {e()}", lambda: f"dat$w <- {e()}",
            lambda: f"names({vector()}) <- NULL", lambda: f"names(m)[1] <- \"k\"", lambda: f"attr(xs, \"t\") <- {e()}", lambda: f"e$v <- {e()}",
            lambda: f"assign(\"{name()}\", {e()})", lambda: f"rm({name()})", lambda: f"{name()} <- {name()} <- {e()}", lambda: f"levels(ys) <- NULL",
            lambda: f"print({e()})", lambda: f"xs <- c(xs, {e()})", lambda: f"dat <- within(dat, {{ t2 <- u + {r.choice(['a', 'b'])} }})",
            lambda: f"g <- function(s) {{ a <<- s; s }}", lambda: f"g({e()})", lambda: f"f <- function(q, w = {r.choice(['a', 'b'])}) {{ z <- q + w; z }}",
            lambda: f"invisible(lapply(1:2, function(i) {name()} <<- i))", lambda: f"eval(parse(text = \"{name()} <- 7\"))", lambda: f"body(f) <- quote(q + {r.choice(['a', 'n'])})",
            lambda: f"makes <- local({{ k <- {e()}; function() k }})", lambda: f"`second one` <- {e()}", lambda: f"is.na(xs) <- 1", lambda: f"dat[dat$u > {e()}, \"v\"] <- 0",
        ]
        if depth > 2:
            return r.choice(simple)()
        b = lambda: self.block(depth)
        compound = [
            lambda: f"if ({e()} > 1) {b()}", lambda: f"if ({e()} > 1) {b()} else {b()}", lambda: f"for ({name()} in 1:2) {b()}",
            lambda: f"for (i in xs) {b()}", lambda: f"repeat {{ {self.statement(depth + 1)}; break }}", lambda: f"while (n < 1) {{ n <- n + 1; {self.statement(depth + 1)} }}",
            lambda: f"tryCatch({b()}, error = function(x) {b()}, finally = {b()})", lambda: f"try({b()}, silent = TRUE)", lambda: f"local({b()})",
            lambda: f"suppressWarnings({b()})", lambda: f"(function() {b()})()", lambda: f"h <- function(q) {b()}; h({e()})",
        ]
        return r.choice(r.choice([simple, compound]))()

    def program(self):
        return "\n".join(self.statement() for _ in range(self.rng.choice([1, 2, 3])))


def main():
    binary = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    sources = [Gen(random.Random(f"{seed}:{number}")).program() for number in range(count)]
    with tempfile.TemporaryDirectory() as directory:
        asked, told = pathlib.Path(directory, "programs"), pathlib.Path(directory, "traces")
        asked.write_text("".join(json.dumps(source) + "\n" for source in sources), "utf-8")
        script = pathlib.Path(__file__).with_name("trace_r.R")
        # The byte compiler looks functions up before the program does.
        quiet = {**os.environ, "R_ENABLE_JIT": "0"}
        subprocess.run(["Rscript", "--vanilla", script, asked, told], check=True, env=quiet)
        traces = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
    text = "".join(json.dumps({"lang": "r", "src": source}) + "\n" for source in sources)
    answers = subprocess.run([binary], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    wrong = completed = skipped = 0
    for number, (source, trace, answer) in enumerate(zip(sources, traces, answers, strict=True)):
        facts = json.loads(answer)
        completed += not trace["error"]
        if any(reason["effect"] & 14 for reason in facts.get("uncertain", [])):
            skipped += 1
            continue
        changed = facts["writes"].keys() | facts["deletes"].keys()
        reads_anything = any(reason["effect"] & 1 for reason in facts.get("uncertain", []))
        faults = {f"reads {name}" for name in trace["R"] if name not in facts["reads"] and not reads_anything}
        faults |= {f"changes {name}" for name in trace["W"] if name not in changed}
        faults |= {f"removes {name}" for name in trace["D"] if name not in changed}
        faults = {fault for fault in faults if fault.split(" ", 1)[1] not in OWN}
        if faults:
            wrong += 1
            if wrong <= 8:
                print(f"program {number}: {sorted(faults)} {trace['error']}")
                print("    " + source.replace("\n", "\n    "))
    print(f"{count} programs, {completed} end normally, {skipped} uncertain: {wrong} do what the facts do not have")
    sys.exit(wrong > 0)


main()
