"""A tool's output contract: the paths of its result's fields."""

from __future__ import annotations

import types
import typing
from typing import Any

import attrs
import msgspec


def output_paths(result: object, prefix: str = "") -> list[str]:
    """The paths of a result class's fields: `rows[].fact_id`; `?` follows one that may be null or absent."""
    paths: list[str] = []
    for name, annotation in typing.get_type_hints(result).items():
        if typing.get_origin(annotation) is typing.ClassVar:
            continue
        optional, items, inner = _unwrap(annotation)
        path = f"{prefix}{name}{'[]' if items else ''}"
        paths.append(f"{path}{'?' if optional else ''}")
        if attrs.has(inner) or (isinstance(inner, type) and issubclass(inner, msgspec.Struct)):
            paths += output_paths(inner, f"{path}.")
    return paths


def _unwrap(annotation: Any) -> tuple[bool, bool, Any]:
    """Whether a field may be missing, whether it is an array, and the type of it or its items."""
    optional, items = annotation is type(None), False
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(annotation) if part not in (type(None), msgspec.UnsetType)]
        optional = True
        annotation = parts[0]
    if typing.get_origin(annotation) in (tuple, list):
        items = True
        annotation = typing.get_args(annotation)[0]
    return optional, items, annotation
