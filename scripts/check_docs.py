#!/usr/bin/env python3
"""Documentation against the tree: links, headings, quoted programs, generated pages.

check_docs.py MXGEMM checks; check_docs.py --write MXGEMM renews quoted programs and docs/kernels.md.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUOTE = re.compile(r"(<!-- file: (\S+) -->\n```\w+\n)(.*?)(```)", re.S)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def anchors(text):
    """Names that GitHub gives to headings."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def link_problems(path, text):
    for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"link to {target}: no such file"
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"link to {target}: no such heading"


def section_problems():
    """Sources refer to docs/numerics.md by section number."""
    numbers = set(re.findall(r"^## (\d+)\.", (ROOT / "docs/numerics.md").read_text(), re.M))
    for folder in ("include", "src", "cli", "tests", "examples"):
        for path in (ROOT / folder).rglob("*.[hc]*"):
            for found in re.findall(r"numerics\.md[,)]? \(?sections? (\d+)", path.read_text()):
                if found not in numbers:
                    yield f"{path.relative_to(ROOT)}: docs/numerics.md has no section {found}"


def main():
    write = sys.argv[1:2] == ["--write"]
    mxgemm = sys.argv[-1]
    found = list(section_problems())
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]):
        text = path.read_text()
        renewed = QUOTE.sub(lambda m: m[1] + (ROOT / m[2]).read_text() + m[4], text)
        if write:
            path.write_text(renewed)
        elif renewed != text:
            found.append(f"{path.name}: a quoted program differs from its file (--write renews it)")
        found += [f"{path.relative_to(ROOT)}: {problem}" for problem in link_problems(path, text)]

    table = subprocess.run([mxgemm, "kernels", "--markdown"], check=True, capture_output=True,
                           text=True).stdout
    kernels = ROOT / "docs/kernels.md"
    if write:
        kernels.write_text(table)
    elif not kernels.exists() or kernels.read_text() != table:
        found.append("docs/kernels.md differs from `mxgemm kernels --markdown` (--write renews it)")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
