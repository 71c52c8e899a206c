"""Settings of a stage: one section of ``params.yaml``, read with types that are checked.

Refuses a missing file, section or key, and a value of another type than the stage needs. A float is no setting of the
data stages: a fraction is an integer with its unit in its name (``heldout_per_10000``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml

from registry.core.canonical import Json
from registry.errors import Refused
from train import paths

MAXIMUM_BYTES = 4 * 2**20


def section(name: str, params: Path = paths.PARAMS) -> dict[str, Json]:
    """The section ``name`` of ``params.yaml``. Raises ``Refused`` when the file or the section is not there."""
    try:
        data = params.read_bytes()
    except OSError as error:
        raise Refused(
            f"{params} cannot be read: {error.strerror}.", remedy="Run the stage in the repository's root."
        ) from error
    if len(data) > MAXIMUM_BYTES:
        raise Refused(f"{params} has {len(data)} bytes, over the limit of {MAXIMUM_BYTES}.")
    try:
        document = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"{params} is not YAML: {error}.") from error
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise Refused(f"{params} has no section {name!r}.", remedy="Add it; the stage takes its settings from there.")
    return cast(dict[str, Json], found)


def whole(settings: Mapping[str, Json], key: str, *, least: int = 0) -> int:
    """The integer at ``key``, at least ``least``."""
    value = settings.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Refused(f"The setting {key!r} must be an integer of at least {least}, not {value!r}.")
    return value


def text(settings: Mapping[str, Json], key: str) -> str:
    """The string at ``key``, not empty."""
    value = settings.get(key)
    if not isinstance(value, str) or not value:
        raise Refused(f"The setting {key!r} must be a string, not {value!r}.", remedy="Quote it in params.yaml.")
    return value


def texts(settings: Mapping[str, Json], key: str) -> tuple[str, ...]:
    """The list of strings at ``key``."""
    value = settings.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refused(f"The setting {key!r} must be a list of strings, not {value!r}.")
    return tuple(cast(Sequence[str], value))


def mapping(settings: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    """The mapping at ``key``."""
    value = settings.get(key)
    if not isinstance(value, dict):
        raise Refused(f"The setting {key!r} must be a mapping, not {value!r}.")
    return value


def mappings(settings: Mapping[str, Json], key: str) -> tuple[Mapping[str, Json], ...]:
    """The list of mappings at ``key``."""
    value = settings.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refused(f"The setting {key!r} must be a list of mappings, not {value!r}.")
    return tuple(cast(Sequence[Mapping[str, Json]], value))
