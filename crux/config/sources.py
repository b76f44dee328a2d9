"""Where the values of the settings come from: the environment, then the YAML file, then the defaults.

The file's scalars are read as the text that was written, so that `off` means the same there as in a variable and both
sources share one parser for each setting.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

import yaml
from attrs import field, frozen

from crux.config import parsers
from crux.config.declaration import Declaration, declarations
from crux.config.settings import Settings
from crux.domain.outbound_config import KNOBS
from crux.errors import SettingError

CONFIG_PATH_ENV = "CORECRUXD_CONFIG_PATH"

_PREFIXES = ("CRUX_", "CORECRUX_", "CORECRUXD_")
# Variables that commands read and the daemon does not, and those that it reads for each call of an extension.
_OTHERS = frozenset(
    {CONFIG_PATH_ENV, "CRUX_MCP_URL", "CORECRUX_LOOPBACK_TOKEN", *(knob.env for knob in KNOBS.values())}
)
_ALIKE = 0.75

_SECTION = "daemon"
_LONGEST_SHOWN = 60
_LEADING_VARIABLE = re.compile(r"(~|\$HOME|\$XDG_STATE_HOME|\$XDG_CONFIG_HOME)(?=/|\Z)")


@frozen
class Loaded:
    """The settings of one start, and where each came from.

    `sources` maps a field's name to "env NAME", "file PATH: daemon.key" or "default". `file` is the file that was read.
    `warnings` are lines for the log.
    """

    settings: Settings
    sources: Mapping[str, str]
    file: Path | None = None
    warnings: tuple[str, ...] = ()


@frozen
class _Given:
    """One value as it was written, the name of its place in a message, and its source for `Loaded`."""

    text: str
    place: str
    source: str


@frozen
class _File:
    """What the configuration file holds: the scalars of its `daemon` section, and what is wrong or odd about it."""

    path: Path | None = None
    values: Mapping[str, str] = field(factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load(environ: Mapping[str, str], *, home: Path) -> Loaded:
    """Read the settings of this start; touches nothing but the one YAML file.

    `home` stands for the user's home directory. Raises `SettingError` with one line about the first value that cannot
    be used (and how many more there are), or about a file that was named and cannot be read, or that is no valid YAML.
    """
    table = declarations(Settings)
    file = _read_file(environ, home)
    found = {name: _find(declaration, environ, file) for name, declaration in table.items()}
    given = {name: value for name, value in found.items() if value is not None}
    problems = list(file.problems)
    values: dict[str, object] = {}
    for name, value in given.items():
        try:
            text = _expand(value.text, environ, home) if table[name].expands else value.text
            values[name] = table[name].parse(text)
        except ValueError as error:
            problems.append(_problem(value, table[name], str(error)))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise SettingError(problems[0] + more)
    settings = Settings(**values)  # type: ignore[arg-type]  # each parser returns its field's type
    sources = {name: given[name].source if name in given else "default" for name in table}
    return Loaded(settings, sources, file.path, (*file.warnings, *_unknown(environ)))


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    """A line for each variable that looks like one of ours and is none; a mistyped one would be missed in silence."""
    known = {declaration.env for declaration in declarations(Settings).values()} | _OTHERS
    for name in sorted(environ.keys() - known):
        if name.startswith(_PREFIXES):
            near = get_close_matches(name, known, 1, _ALIKE)
            yield f"{name} is no setting of this version" + (f": is {near[0]} meant?" if near else "")


def _find(declaration: Declaration, environ: Mapping[str, str], file: _File) -> _Given | None:
    text = environ.get(declaration.env)
    if text is not None and (text.strip() or declaration.keep_empty):
        return _Given(text, declaration.env, f"env {declaration.env}")
    if declaration.file is not None and file.values.get(declaration.file, "").strip():
        return _Given(
            file.values[declaration.file], f"{declaration.file} in {file.path}", f"file {file.path}: {declaration.file}"
        )
    return None


def _problem(given: _Given, declaration: Declaration, expected: str) -> str:
    if declaration.secret:
        return f"{given.place} is set to a value that cannot be used (not shown), expected {expected}"
    text = given.text if len(given.text) <= _LONGEST_SHOWN else given.text[:_LONGEST_SHOWN] + "…"
    return f"{given.place} is {text!r}, expected {expected}"


def _read_file(environ: Mapping[str, str], home: Path) -> _File:
    named = environ.get(CONFIG_PATH_ENV, "").strip()
    try:
        path = parsers.path(_expand(named or "$XDG_CONFIG_HOME/crux/config.yaml", environ, home))
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if named:
            raise SettingError(f"{CONFIG_PATH_ENV} is {named!r}, and there is no such file") from None
        return _File()
    except OSError as error:
        raise SettingError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"the configuration file {path} is not UTF-8 text") from error
    except ValueError as error:
        raise SettingError(f"{CONFIG_PATH_ENV} is {named!r}, expected {error}") from None
    return _read_document(path, _parse_yaml(path, content))


def _parse_yaml(path: Path, content: str) -> object:
    try:
        return yaml.BaseLoader(content).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SettingError(f"the configuration file {path} is not valid YAML: {error.problem}{where}") from None
    except yaml.YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise SettingError(f"the configuration file {path} is not valid YAML: {reason}") from None


def _read_document(path: Path, document: object) -> _File:
    sections = _mapping(document)
    if sections is None:
        raise SettingError(f"the configuration file {path} is not a mapping of sections such as `{_SECTION}:`")
    keys = _mapping(sections.get(_SECTION))
    if keys is None:
        raise SettingError(f"{_SECTION} in {path} is not a mapping of keys")
    known = {declaration.file for declaration in declarations(Settings).values() if declaration.file}
    values: dict[str, str] = {}
    problems: list[str] = []
    for key, value in keys.items():
        name = f"{_SECTION}.{key}"
        if name not in known:
            choices = ", ".join(sorted(entry.removeprefix(f"{_SECTION}.") for entry in known))
            problems.append(f"{_SECTION}.{key} in {path} is no setting, expected one of {choices}")
        elif isinstance(value, str):
            values[name] = value
        else:
            problems.append(f"{name} in {path} is a list or a mapping, expected one value")
    warnings = tuple(f"{path}: section {key!r} is not used" for key in sections if key != _SECTION)
    return _File(path, values, tuple(problems), warnings)


def _mapping(value: object) -> Mapping[str, object] | None:
    """A YAML mapping; nothing at all counts as an empty one. None for anything else."""
    if value is None or value == "":
        return {}
    return value if isinstance(value, dict) else None


def _expand(text: str, environ: Mapping[str, str], home: Path) -> str:
    """`text` with a leading `~/`, `$HOME` or XDG variable replaced; an unset XDG variable has its standard default."""
    found = _LEADING_VARIABLE.match(text.strip())
    if found is None:
        return text
    directory = {
        "$XDG_STATE_HOME": _xdg_directory(environ, "XDG_STATE_HOME", home / ".local" / "state"),
        "$XDG_CONFIG_HOME": _xdg_directory(environ, "XDG_CONFIG_HOME", home / ".config"),
    }.get(found[1], home)
    return f"{directory}{text.strip()[found.end() :]}"


def _xdg_directory(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    """A base directory; a relative one is void (XDG Base Directory Specification, Basics)."""
    named = Path(environ.get(variable, ""))
    return named if named.is_absolute() else default
