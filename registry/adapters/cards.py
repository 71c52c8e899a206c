"""Model cards as files: a head of YAML between two lines of three dashes, and Markdown below.

The head is written by the library, in the order that it is given, so that equal cards have equal bytes. Refuses a
template over a limit, one without a head, and YAML with aliases, with which a few lines can stand for gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from registry.core.card import Template
from registry.errors import Refused

LARGEST_TEMPLATE = 2**20
_FORM = re.compile(r"---\n(.*?)^---\n(.*)", re.DOTALL | re.MULTILINE)


def read_template(data: bytes) -> Template:
    """The template of a card. Raises ``Refused``."""
    if len(data) > LARGEST_TEMPLATE:
        raise Refused(f"A card's template of {len(data)} bytes is over the limit of {LARGEST_TEMPLATE}.")
    match = _FORM.fullmatch(_text(data))
    if match is None:
        raise Refused("The card's template has no head of YAML.", remedy="Begin it with '---', the head, and '---'.")
    return Template(metadata=_head(match[1]), body=match[2])


def write_card(metadata: Mapping[str, object], body: str) -> bytes:
    """The bytes of a card."""
    head: str = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n{body}".encode()


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Refused("The card's template is not UTF-8.") from error


def _head(text: str) -> Mapping[str, object]:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise Refused("The head of the card's template uses YAML aliases.", remedy="Write values out.")
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused(f"The head of the card's template is no YAML: {str(error)[:200]}") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Refused("The head of the card's template is no list of names and values.")
    return value
