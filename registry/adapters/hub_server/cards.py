"""The metadata block of a README.md: YAML between two lines of dashes, read without running or unfolding anything.

Refuses aliases (a few bytes can stand for gigabytes), deep nesting, blocks beyond a size, and everything that is no
mapping at the top.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from registry.adapters.hub_server.problems import Problem
from registry.adapters.hub_server.settings import CARD_BYTES

_BLOCK = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_DEEPEST: Final = 24
_LISTS: Final = ("tags", "language", "datasets", "base_model", "license")


def read_card(text: str) -> dict[str, Any]:
    """The metadata of a card, made of what JSON can say; empty without a block. Raises ``Problem`` with the reason."""
    match = _BLOCK.match(text)
    if match is None:
        return {}
    block = match[1]
    if len(block.encode(errors="replace")) > CARD_BYTES:
        raise Problem(f"The metadata block is longer than {CARD_BYTES} bytes.")
    try:
        _check_shape(block)
        value = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError) as error:
        raise Problem(f"bad YAML: {str(error).splitlines()[0]}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Problem("The metadata block is not a mapping.")
    return {str(key): _plain(item) for key, item in value.items()}


def _check_shape(block: str) -> None:
    depth = 0
    for event in yaml.parse(block, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise Problem("The metadata block uses a YAML alias.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise Problem(f"The metadata block is nested deeper than {_DEEPEST}.")


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | set | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bool | None):
        return value
    if isinstance(value, int | float):
        return _number(value)
    return str(value).encode(errors="replace").decode()


def _number(value: float) -> float | str:
    if isinstance(value, int) and value.bit_length() > 64:
        raise Problem("The metadata block has a number of more than 64 bits.")
    return value if math.isfinite(value) else str(value)


def findings(card: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Errors and warnings of a card's metadata: wrong types are errors, an empty block is a warning."""
    warnings = [] if card else ["empty or missing yaml metadata in repo card"]
    errors = [f'"{key}" must be a text or a list of texts' for key in _LISTS if not _texts(card.get(key, []))]
    texts = ("license_name", "license_link", "new_version", "pipeline_tag", "library_name")
    errors += [f'"{key}" must be a text' for key in texts if not isinstance(card.get(key, ""), str)]
    errors += [] if isinstance(card.get("model-index", []), list) else ['"model-index" must be a list']
    return errors, warnings


def _texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def tags(card: Mapping[str, Any]) -> list[str]:
    """The tags that a card's metadata gives its repository: languages, licence, lineage, and its own."""
    return list(dict.fromkeys(_tags(card)))


def _tags(card: Mapping[str, Any]) -> Iterator[str]:
    yield from (card[key] for key in ("library_name", "pipeline_tag") if isinstance(card.get(key), str))
    yield from _listed(card, "tags")
    yield from _listed(card, "language")
    yield from (f"license:{name}" for name in _listed(card, "license"))
    yield from (f"dataset:{name}" for name in _listed(card, "datasets"))
    relation = card.get("base_model_relation")
    for name in _listed(card, "base_model"):
        yield f"base_model:{name}"
        if isinstance(relation, str):
            yield f"base_model:{relation}:{name}"


def _listed(card: Mapping[str, Any], key: str) -> list[str]:
    value = card.get(key)
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]
