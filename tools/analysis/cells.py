"""Turns the trees that corpus.sh fetched into JSON lines of cells, without duplicates."""

import hashlib
import json
import pathlib
import re
import sys
import sysconfig


def python_cells(tree):
    seen = set()
    for path in sorted(tree.rglob("*.ipynb")):
        try:
            notebook = json.loads(path.read_text("utf-8"))
            language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        except (ValueError, OSError, AttributeError):
            continue
        if language not in ("python", "python3"):
            continue
        # A notebook is often packed twice; cells that several notebooks share stay in each.
        sources = json.dumps([cell.get("source", "") for cell in notebook.get("cells", []) if isinstance(cell, dict)])
        if sources in seen:
            continue
        seen.add(sources)
        for number, cell in enumerate(notebook.get("cells", [])):
            if isinstance(cell, dict) and cell.get("cell_type") == "code":
                source = cell.get("source", "")
                yield f"{path.relative_to(tree)}#{number}", source if isinstance(source, str) else "".join(source)


def library():
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            yield str(path.relative_to(root)), path.read_text("utf-8")
        except (ValueError, OSError):
            continue


CHUNK = re.compile(r"^```+\s*\{[rR][^}]*\}\s*$(.*?)^```+\s*$", re.M | re.S)
PURLED = re.compile(r"^## ----.*$", re.M)


def r_cells(tree):
    for path in sorted(tree.rglob("*")):
        suffix = path.suffix.lower()
        if suffix not in (".r", ".rmd") or not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except (ValueError, OSError):
            continue
        if suffix == ".rmd":
            for number, chunk in enumerate(CHUNK.findall(text)):
                yield f"{path.name}#{number}", chunk
        elif PURLED.search(text):
            for number, chunk in enumerate(PURLED.split(text)):
                yield f"{path.name}#{number}", chunk
        else:
            yield path.name, text


def write(path, language, cells):
    seen = set()
    with open(path, "w", encoding="utf-8") as out:
        for name, source in cells:
            # What stands alone is counted once.
            digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest() if "#" not in name else name
            if not source.strip() or digest in seen or len(source) > 400_000:
                continue
            seen.add(digest)
            out.write(json.dumps({"id": name, "lang": language, "src": source}) + "\n")
    print(f"{path.name}: {len(seen)} cells")


def main():
    out = pathlib.Path(sys.argv[1])
    write(out / "py_cells.jsonl", "py", python_cells(out / "tree"))
    write(out / "py_lib.jsonl", "py", library())
    write(out / "r_cells.jsonl", "r", r_cells(out / "tree"))


main()
