"""Edits inside Python files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .scene import FRAME, Scene

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAIN = FRAME[0]


@dataclass
class _Place:
    """A node of a file that can be edited."""

    name: str
    text: str
    node: ast.AST

    def replace_node(self, new: str) -> str:
        """Return the text of the file with the node replaced."""
        start, end = _find_span(self.text, self.node)
        return self.text[:start] + new + self.text[end:]


def _find_span(text: str, node: ast.AST) -> tuple[int, int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _pick_place(scene: Scene, find: type[Finder]) -> _Place | None:
    """Pick a random match of a finder. Every file is equally likely."""
    names = scene.list_sources(lambda name: not name.startswith("scratch/"))
    scene.rng.shuffle(names)
    for name in names:
        text = scene.read(name)
        nodes = list(find(name).find(ast.parse(text)))
        if nodes:
            return _Place(name, text, scene.rng.choice(nodes))
    return None


class Finder:
    """Finds nodes of one kind in a file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        """Find the nodes."""
        raise NotImplementedError

    def find_literals(self, nodes: list[ast.stmt]) -> Iterator[ast.Constant]:
        """Find numbers and texts below these nodes, except docstrings and the keys that the agent itself uses."""
        queue: list[ast.AST] = list(nodes)
        for node in queue:
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                continue
            if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
                texts = () if self.name in FRAME else (str,)
                if isinstance(node.value, (int, *texts)) and node.value != "":
                    yield node
            queue += ast.iter_child_nodes(node)


class _Functions(Finder):
    def find(self, tree: ast.Module) -> Iterator[Function]:
        return (node for node in ast.walk(tree) if isinstance(node, Function))


class _BodyLiterals(Finder):
    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        for function in _Functions(self.name).find(tree):
            yield from self.find_literals(function.body)


class _BranchLiterals(Finder):
    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        for body in _find_branches(tree):
            yield from self.find_literals(body)


class _BranchStarts(Finder):
    """The first statements of branches, each on a line of its own."""

    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        if self.name not in FRAME:
            yield from (body[0] for body in _find_branches(tree) if not _is_elif(body))


def _find_branches(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in (node for function in ast.walk(tree) if isinstance(function, Function) for node in ast.walk(function)):
        if isinstance(node, ast.If):
            yield from (body for body in (node.body, node.orelse) if body)
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            yield node.body


def _is_elif(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.If)


class _ModuleLiterals(Finder):
    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        return self.find_literals([node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)])


class _ClassLiterals(Finder):
    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield from self.find_literals(
                    [item for item in node.body if isinstance(item, ast.Assign | ast.AnnAssign)]
                )


class _Docstrings(Finder):
    def find(self, tree: ast.Module) -> Iterator[ast.AST]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | Function) and ast.get_docstring(node):
                yield node.body[0]


class _Signatures(_Functions):
    def find(self, tree: ast.Module) -> Iterator[Function]:
        return (node for node in super().find(tree) if self.name != _MAIN)


class _Defaults(_Functions):
    def find(self, tree: ast.Module) -> Iterator[Function]:
        return (node for node in super().find(tree) if node.args.defaults and self.name not in FRAME)


class _FunctionsWithN(_Functions):
    """Functions with a parameter n whose body begins on a line of its own."""

    def find(self, tree: ast.Module) -> Iterator[Function]:
        for node in super().find(tree):
            if any(argument.arg == "n" for argument in node.args.args) and node.body[0].lineno > node.lineno:
                yield node


def _make_other_literal(scene: Scene, value: object, *, equal_length: bool = False) -> str:
    """Make another literal of the same type."""
    if isinstance(value, int):
        low, high = (1, 9) if value < 10 else (11, 99) if value < 100 else (100, 999)
        return str(scene.rng.choice([number for number in range(low, high + 1) if number != value]))
    text = str(value)
    if equal_length or scene.rng.random() < 0.5:
        return repr(text[:-1] + ("z" if text[-1] != "z" else "y"))
    return repr(f"{text} {scene.pick_number()}")


def _edit_literal(scene: Scene, find: type[Finder], style: str | None = None) -> str | None:
    place = _pick_place(scene, find)
    if place is None or not isinstance(place.node, ast.Constant):
        return None
    new = _make_other_literal(scene, place.node.value)
    scene.write(place.name, place.replace_node(new), style)
    return f"{place.name}:{place.node.lineno}: {place.node.value!r} is now {new}"


def body(scene: Scene) -> str | None:
    """Change a number or text in the body of a function."""
    return _edit_literal(scene, _BodyLiterals)


def saved_atomically(scene: Scene) -> str | None:
    """Change a body, and save it by renaming a new file over the old one."""
    return _edit_literal(scene, _BodyLiterals, "atomic")


def saved_in_place(scene: Scene) -> str | None:
    """Change a body, and save it into the existing file."""
    return _edit_literal(scene, _BodyLiterals, "in_place")


def equal_length(scene: Scene) -> str | None:
    """Change a literal, but neither the size of the file nor the second of its modification time."""
    place = _pick_place(scene, scene.rng.choice((_BodyLiterals, _ModuleLiterals)))
    if place is None or not isinstance(place.node, ast.Constant):
        return None
    old = ast.get_source_segment(place.text, place.node)
    new = _make_other_literal(scene, place.node.value, equal_length=True)
    if old is None or len(new) != len(old):
        return None
    scene.write_in_the_same_second(place.name, place.replace_node(new))
    return f"{place.name}:{place.node.lineno}: {old} is now {new}"


def constant(scene: Scene) -> str | None:
    """Change a constant of a module."""
    return _edit_literal(scene, _ModuleLiterals)


def class_attribute(scene: Scene) -> str | None:
    """Change an attribute of a class."""
    return _edit_literal(scene, _ClassLiterals)


def statement(scene: Scene) -> str | None:
    """Add a line to the body of a function."""
    place = _pick_place(scene, _FunctionsWithN)
    if place is None or not isinstance(place.node, Function):
        return None
    first = place.node.body[1:] or place.node.body
    lines = place.text.splitlines(keepends=True)
    lines.insert(first[0].lineno - 1, f"{' ' * first[0].col_offset}n = n + {scene.rng.randint(1, 9)}\n")
    scene.write(place.name, "".join(lines))
    return f"{place.name}: {place.node.name}() counts on"


def branch(scene: Scene) -> str | None:
    """Change a number or text in one branch of a condition."""
    return _edit_literal(scene, _BranchLiterals)


def branch_statement(scene: Scene) -> str | None:
    """Add a line to one branch of a condition. It may leave the function, or make a name local to all of it."""
    place = _pick_place(scene, _BranchStarts)
    if place is None or not isinstance(place.node, ast.stmt):
        return None
    names = re.findall(r"^(?:from .* import )?([A-Za-z_]\w*)(?: = .*)?$", place.text, flags=re.MULTILINE) or ["n"]
    number = scene.pick_number()
    new = scene.rng.choice(
        (f"n = {number}", f"return [{number}]", f"raise ValueError({number})", f"{scene.rng.choice(names)} = {number}",
         f"global {scene.rng.choice(names)}")
    )  # fmt: skip
    lines = place.text.splitlines(keepends=True)
    lines.insert(place.node.lineno - 1, f"{' ' * place.node.col_offset}{new}\n")
    scene.write(place.name, "".join(lines))
    return f"{place.name}:{place.node.lineno}: {new}"


def docstring(scene: Scene) -> str | None:
    """Change the docstring of a function or class."""
    place = _pick_place(scene, _Docstrings)
    if place is None:
        return None
    scene.write(place.name, place.replace_node(f'"""Something else, {scene.pick_number()}."""'))
    return f"{place.name}: another docstring"


def _find_arguments(text: str, node: Function) -> tuple[int, int]:
    """Find the start and the end of the parameters of a function in the text."""
    start, _ = _find_span(text, node)
    start = text.index("(", text.index(f"def {node.name}", start)) + 1
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return start, end - 1


def _edit_signature(scene: Scene, change: str) -> str | None:
    place = _pick_place(scene, _Defaults if change == "default" and scene.rng.random() < 0.8 else _Signatures)
    if place is None or not isinstance(place.node, Function):
        return None
    start, end = _find_arguments(place.text, place.node)
    arguments = place.node.args
    if change == "parameter":
        arguments.kwonlyargs.append(ast.arg(f"added_{scene.pick_number()}"))
        arguments.kw_defaults.append(ast.Constant(scene.rng.randint(1, 9)))
    elif not arguments.args:
        return None
    elif change == "default":
        arguments.defaults[-1:] = [ast.Constant(scene.rng.randint(1, 9))]
    else:
        arguments.args[-1].annotation = ast.Name(scene.rng.choice(("float", "str", "object", "bytes")))
    new = ast.unparse(arguments)
    if new == place.text[start:end]:
        return None
    scene.write(place.name, place.text[:start] + new + place.text[end:])
    return f"{place.name}: {place.node.name}({new})"


def parameter(scene: Scene) -> str | None:
    """Add a parameter to a function."""
    return _edit_signature(scene, "parameter")


def default(scene: Scene) -> str | None:
    """Change the default of a parameter."""
    return _edit_signature(scene, "default")


def annotation(scene: Scene) -> str | None:
    """Change the annotation of a parameter."""
    return _edit_signature(scene, "annotation")


def decorator(scene: Scene) -> str | None:
    """Add or remove a decorator."""
    place = _pick_place(scene, _Signatures)
    if place is None or not isinstance(place.node, Function):
        return None
    lines = place.text.splitlines(keepends=True)
    node = place.node
    if node.decorator_list:
        item = node.decorator_list[0]
        assert item.end_lineno is not None
        del lines[item.lineno - 1 : item.end_lineno]
    else:
        is_plain = isinstance(node, ast.FunctionDef) and not any(isinstance(item, ast.Yield) for item in ast.walk(node))
        wrapper = (
            f"lambda *given: [function(*given), {scene.pick_number()}]"
            if is_plain and scene.rng.random() < 0.5
            else "function"
        )
        lines.insert(node.lineno - 1, f"{' ' * node.col_offset}@(lambda function: {wrapper})\n")
    scene.write(place.name, "".join(lines))
    return f"{place.name}: decorator of {node.name}()"


def comment(scene: Scene) -> str | None:
    """Add a comment on its own line."""
    return _edit_layout(scene, lambda lines, index: lines.insert(index, f"# {scene.pick_number()}\n"))


def moved_lines(scene: Scene) -> str | None:
    """Add empty lines, which move everything below them."""
    return _edit_layout(scene, lambda lines, index: lines.insert(index, "\n" * scene.rng.randint(1, 4)))


def formatting(scene: Scene) -> str | None:
    """Change spaces, quotes or line ends, as a formatter would."""

    def change(lines: list[str], index: int) -> None:
        old, new = scene.rng.choice((("\n", "  \n"), (" = ", "   =  "), (" + ", "+"), ("(n)", "( n )"), ('"', "'")))
        lines[index:] = [line.replace(old, new) for line in lines[index:]]

    return _edit_layout(scene, change)


def _edit_layout(scene: Scene, change: object) -> str | None:
    """Change the lines of a file without changing its syntax tree."""
    assert callable(change)
    name = scene.rng.choice(scene.list_sources())
    text = scene.read(name)
    for _ in range(5):
        lines = text.splitlines(keepends=True)
        change(lines, scene.rng.randint(0, max(0, len(lines) - 1)))
        new = "".join(lines)
        try:
            is_same = ast.dump(ast.parse(new)) == ast.dump(ast.parse(text))
        except SyntaxError:
            is_same = False
        if is_same and new != text:
            scene.write(name, new)
            return name
    return None


def syntax_error(scene: Scene) -> str | None:
    """Break the syntax of a file, as half-typed code does."""
    name = scene.rng.choice(scene.list_sources())
    lines = scene.read(name).splitlines(keepends=True)
    starts = [index for index, line in enumerate(lines) if re.match(r"\S", line)] or [0]
    lines.insert(scene.rng.choice(starts), scene.rng.choice(("def half(\n", "value = = 1\n", "if True\n", "    odd\n")))
    broken = "".join(lines)
    scene.write(name, broken)
    return name if scene.parse(name) is None else f"{name} (within a text)"


def syntax_repaired(scene: Scene) -> str | None:
    """Restore the last valid content of a broken file."""
    broken = [name for name in scene.list_python_files() if scene.parse(name) is None and name in scene.valid_contents]
    if not broken:
        return None
    name = scene.rng.choice(broken)
    scene.write(name, scene.valid_contents[name])
    return name


EDITS = (
    body, saved_atomically, saved_in_place, equal_length, constant, class_attribute, statement, branch,
    branch_statement, docstring, parameter, default, annotation, decorator, syntax_error, syntax_repaired,
)  # fmt: skip
NEUTRAL_EDITS = (comment, moved_lines, formatting)
