#!/usr/bin/env python3
"""Checks how the files of each crate import each other.

Prints for each crate: its modules (the files and folders beside lib.rs or main.rs), the floors that their imports stack them on, the
imports that run back up, and the largest circle of files that all reach each other. Fails where a circle has more than three files, and
where a module imports one from above it in the order that the crate's Cargo.toml declares:

    [package.metadata.layers]
    order = ["base", "link", "objects other"]   # from the lowest on; modules in one entry stand side by side

    scripts/layers.py [-v] [--revision REVISION] [CRATE...]      # -v: which files make the circles, which imports run up

An import is a `use` or a path in code; comments, strings and what is compiled for tests only do not count. A name is followed through
`pub use` to the file that defines it: a re-export is no dependency of the file that re-exports.
"""

import argparse
import itertools
import os
import posixpath
import re
import subprocess
import sys
import tomllib
from pathlib import Path

LARGEST_CIRCLE = 3

NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|[^\\'])'""", re.S | re.X
)
FOR_TESTS = re.compile(r"#\[cfg\((?:test|all\(test\b[^]]*)\)\]\s*(?:#\[[^]]*\]\s*)*")
MODULE = re.compile(r"\bmod\s+(\w+)\s*;")
USE = re.compile(r"(\bpub\s*(?:\([^)]*\)\s*)?)?\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(\w+(?:::\w+)+)")
MACRO = re.compile(r"macro_rules!\s*(\w+)")


class Revision:
    """The tracked files of the work tree, or of a commit."""

    def __init__(self, revision):
        self.revision = revision
        listing = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files", "-co", "--exclude-standard"]
        self.files = set(git(*listing).splitlines())

    def read(self, path):
        if self.revision:
            return git("show", f"{self.revision}:{path}")
        try:
            return Path(path).read_text()
        except FileNotFoundError:
            return ""


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def code_of(text):
    """The text without comments, strings and what is for tests."""
    text = NOT_CODE.sub(" ", text)
    while found := FOR_TESTS.search(text):
        end, depth = found.end(), 0
        for end in range(found.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0 and text[end] in "};":
                break
        text = text[: found.start()] + text[end + 1 :]
    return text


def names_of(tree, before=()):
    """The paths that a use tree names, each with the name that it gives them."""
    depth, parts, start = 0, [], 0
    for at, letter in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(tree[start:at])
            start = at + 1
    for part in filter(None, map(str.strip, [*parts, tree[start:]])):
        if "{" in part:
            head, rest = part.split("{", 1)
            yield from names_of(rest.rsplit("}", 1)[0], (*before, *filter(None, map(str.strip, head.split("::")))))
        else:
            path, _, alias = part.partition(" as ")
            path = (*before, *map(str.strip, path.split("::")))
            path = path[:-1] if path[-1] == "self" and len(path) > 1 else path
            yield path, alias.strip() or path[-1]


class File:
    """A module that has a file of its own."""

    def __init__(self, crate, path, name, parent):
        self.path, self.name, self.parent, self.children = path, name, parent, {}
        crate.files.append(self)
        code = code_of(crate.revision.read(path))
        for macro in MACRO.findall(code):
            crate.macros[macro] = self
        folder = posixpath.dirname(path)
        if posixpath.basename(path) not in ("lib.rs", "main.rs", "mod.rs"):
            folder = posixpath.join(folder, name)
        for child in MODULE.findall(code):
            for place in (f"{folder}/{child}.rs", f"{folder}/{child}/mod.rs"):
                if place in crate.revision.files:
                    self.children[child] = File(crate, place, child, self)
        self.uses = [(*named, bool(public)) for public, tree in USE.findall(code) for named in names_of(tree)]
        body = MODULE.sub(" ", USE.sub(" ", code))
        self.paths = {tuple(path.split("::")) for path in PATH.findall(body)}
        self.macros = set(re.findall(r"\b(\w+)!", body))
        self.words = set(re.findall(r"\w+", body))

    def top(self):
        """The module beside the crate's root that it belongs to."""
        file = self
        while file.parent and file.parent.parent:
            file = file.parent
        return file


class Crate:
    """One crate's files, and which import which."""

    def __init__(self, revision, folder, root):
        self.revision, self.files, self.macros = revision, [], {}
        manifest = tomllib.loads(revision.read(f"{folder}/Cargo.toml"))
        self.order = manifest["package"].get("metadata", {}).get("layers", {}).get("order", [])
        self.root = File(self, f"{folder}/src/{root}", "crate", None)
        self.imports = {file: set() for file in self.files}
        for file in self.files:
            paths = [path for path, name, public in file.uses if not public or name in file.words] + list(file.paths)
            targets = [self.defines(file, path) for path in paths]
            targets += [self.macros.get(macro) for macro in file.macros]
            self.imports[file].update(target for target in targets if target not in (None, file))

    def defines(self, file, path, seen=()):
        """The file that defines what a path in a file names; None for what is no part of the crate."""
        at, rest = file, list(path)
        if rest[0] == "crate":
            at, rest = self.root, rest[1:]
        elif rest[0] not in ("self", "super") and rest[0] not in file.children:
            # Perhaps the name of something that is imported.
            for target, name, _ in file.uses:
                if name == rest[0] and len(rest) > 1 and (file, name) not in seen and target != path:
                    return self.defines(file, (*target, *rest[1:]), (*seen, (file, name)))
            return None
        while rest and rest[0] in ("self", "super"):
            at = at.parent or at if rest.pop(0) == "super" else at
        while rest and rest[0] in at.children:
            at = at.children[rest.pop(0)]
        for target, name, public in at.uses if rest else ():
            if public and name == rest[0] and (at, name) not in seen:
                return self.defines(at, (*target, *rest[1:]), (*seen, (at, name))) or at
        if at is self.root and rest and rest[0] in self.macros:
            return self.macros[rest[0]]
        return at

    def circles(self):
        """The sets of files that all reach each other, the largest first."""
        reached = {}
        for file in self.files:
            todo, reached[file] = [file], set()
            while todo:
                for target in self.imports[todo.pop()] - reached[file]:
                    reached[file].add(target)
                    todo.append(target)
        circles = {frozenset(other for other in reached[file] if file in reached[other]) for file in self.files}
        return sorted(filter(None, circles), key=len, reverse=True)

    def arrows(self):
        """Which module imports which, with the files that do."""
        arrows = {}
        for file, target in ((file, target) for file in self.files for target in self.imports[file]):
            if file.top() is not target.top() and self.root not in (file, target):
                arrows.setdefault((file.top().name, target.top().name), []).append((file, target))
        return arrows

    def floors(self, arrows):
        """Each module's floor: as declared, else so that few imports run up."""
        if self.order:
            return {name: at for at, names in enumerate(self.order) for name in names.split()}
        stack = fewest_up(sorted(self.root.children), set(arrows))
        floors = {}
        for at, name in enumerate(stack):
            floors[name] = 1 + max((floors[below] for below in stack[:at] if (name, below) in arrows), default=-1)
        return floors


def fewest_up(names, arrows):
    """An order, from the lowest on, in which few arrows run up: of the greedy order, with single modules moved while that helps."""
    low, high, left = [], [], set(names)
    while left:
        inner = [(a, b) for a, b in arrows if a in left and b in left]
        degree = {name: (sum(a == name for a, _ in inner), sum(b == name for _, b in inner)) for name in sorted(left)}
        sink = [name for name, (uses, _) in degree.items() if uses == 0]
        source = [name for name, (_, used) in degree.items() if used == 0]
        if sink or not source:
            chosen = sink[0] if sink else min(degree, key=lambda name: (degree[name][0] - degree[name][1], name))
            low.append(chosen)
        else:
            chosen = source[0]
            high.insert(0, chosen)
        left.remove(chosen)
    order = low + high
    cost = lambda order: sum(order.index(b) > order.index(a) for a, b in arrows)  # noqa: E731
    best, better = cost(order), True
    while better:
        better = False
        for name, place in itertools.product(names, range(len(names))):
            tried = [other for other in order if other != name]
            tried.insert(place, name)
            if (found := cost(tried)) < best:
                order, best, better = tried, found, True
    return order


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--revision")
    parser.add_argument("crates", nargs="*")
    asked = parser.parse_args()
    os.chdir(Path(__file__).resolve().parent.parent)
    revision = Revision(asked.revision)
    failed = False
    print(f"{'crate':24}{'files':>6}{'modules':>9}{'floors':>8}{'arrows up':>11}{'largest circle':>16}")
    roots = sorted(path for path in revision.files if re.search(r"(^|/)src/(lib|main)\.rs$", path))
    for path in roots:
        folder, root = path.split("/src/")
        name = posixpath.basename(folder)
        if (asked.crates and name not in asked.crates) or not revision.read(path):
            continue
        crate = Crate(revision, folder, root)
        arrows, circles = crate.arrows(), crate.circles()
        floors = crate.floors(arrows)
        missing = [module for module in crate.root.children if module not in floors]
        up = [arrow for arrow in arrows if not set(arrow) & set(missing) and floors[arrow[1]] > floors[arrow[0]]]
        # Where an order is declared, modules side by side do not import each other.
        if crate.order:
            up += [arrow for arrow in arrows if not set(arrow) & set(missing) and floors[arrow[1]] == floors[arrow[0]]]
        largest = len(circles[0]) if circles else 0
        modules, height = len(crate.root.children), len(set(floors.values()))
        print(f"{name:24}{len(crate.files):6}{modules:9}{height:8}{len(up):11}{largest or 'none':>16}")
        wrong = largest > LARGEST_CIRCLE or (crate.order and up) or (crate.order and missing)
        failed |= bool(wrong)
        for module in missing if crate.order else ():
            print(f"  {folder}/Cargo.toml does not say on which floor {module} is")
        if asked.verbose or (wrong and crate.order):
            for arrow in up:
                print(f"  {arrow[0]} imports {arrow[1]}: " + ", ".join(f"{a.path} -> {b.path}" for a, b in arrows[arrow]))
        for circle in circles:
            if len(circle) > LARGEST_CIRCLE or asked.verbose:
                print(f"  a circle of {len(circle)}:")
                for file in sorted(circle, key=lambda file: file.path):
                    inner = sorted(posixpath.relpath(t.path, f"{folder}/src") for t in crate.imports[file] & circle)
                    print(f"    {posixpath.relpath(file.path, f'{folder}/src')} imports {', '.join(inner)}")
    if failed:
        sys.exit(f"a circle has more than {LARGEST_CIRCLE} files, or an import runs up: move what both need below both")


if __name__ == "__main__":
    main()
