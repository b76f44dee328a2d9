"""The reference page of the tools, made from their declarations: `python -m crux.tools.reference > docs/tools.md`."""

from collections.abc import Iterator

import msgspec

from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Tool
from crux.tools.schema import Parameter

INTRODUCTION = """\
# Tools

Made from the declarations by `make docs`; do not edit.

Each call's result is one text item that holds one compact JSON document with the fields below; `[]` marks an array and
`?` a field that may be null or absent. A missing or wrong argument is error -32602 and names the argument; `null` is
the same as absent; unknown arguments are ignored.
"""


def reference_markdown() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(line for tool in CATALOGUE.tools for line in _chapter(tool))])


def _chapter(tool: Tool) -> Iterator[str]:
    yield f"## `{tool.name}`\n"
    yield f"{tool.description}\n"
    yield f"Plane {tool.plane}, effect `{tool.effect}`.\n"
    if tool.parameters:
        yield "| argument | type | required | default | meaning |"
        yield "| --- | --- | --- | --- | --- |"
        yield from (row for parameter in tool.parameters for row in _rows(parameter))
        yield ""
    yield f"Returns: {', '.join(f'`{path}`' for path in tool.output)}.\n"
    yield f"Example: {_code(tool.examples[0])}\n"


def _rows(parameter: Parameter) -> Iterator[str]:
    """The row of an argument, and where it is an object those of its members."""
    about, members = parameter.about, parameter.kind.members
    default = "" if about.required or members or parameter.default is None else _code(parameter.default)
    required = "yes" if about.required else "no"
    yield f"| `{parameter.path}` | {parameter.expected} | {required} | {default} | {about.text} |"
    for member in members:
        yield from _rows(member)


def _code(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    print(reference_markdown(), end="")  # noqa: T201 - printing is what it is for
