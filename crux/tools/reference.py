"""The reference page of the tools, made from their declarations: `python -m crux.tools.reference > docs/tools.md`."""

from collections.abc import Iterator

import msgspec

from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Tool

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
        for parameter in tool.parameters:
            default = "" if parameter.about.required or parameter.default is None else _code(parameter.default)
            required = "yes" if parameter.about.required else "no"
            yield f"| `{parameter.name}` | {parameter.expected} | {required} | {default} | {parameter.about.text} |"
        yield ""
    yield f"Returns: {', '.join(f'`{path}`' for path in tool.output)}.\n"
    yield f"Example: {_code(tool.examples[0])}\n"


def _code(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    print(reference_markdown(), end="")  # noqa: T201 - printing is what it is for
