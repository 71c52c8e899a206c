"""The model card: prose that people edit, metadata that they choose, and facts that come from records alone.

A template is Markdown with a head of YAML. Where a line says ``<!-- facts: data -->`` the facts of that name are put
in, between that mark and a closing one, so that anybody sees which words nobody wrote by hand. Refuses a template that
leaves facts out, names unknown ones or repeats one; metadata that only records may state; a licence that is missing;
and a base model without its relation, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.core.publications import checked_repository
from registry.errors import Refused

FACTS: Final = (
    "title",
    "warnings",
    "summary",
    "curve",
    "evaluation",
    "forecast",
    "data",
    "training",
    "hardware",
    "incidents",
    "licences",
    "proof",
    "identity",
    "use",
)
RELATIONS: Final = ("adapter", "finetune", "merge", "quantized")
RECORDED: Final = ("library_name", "model-index", "model_name", "pipeline_tag")
_MARK = re.compile(r"^<!-- facts: ([a-z]+) -->$", re.MULTILINE)
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_REMEDY: Final = "Mend the template of the card; its facts are: " + ", ".join(FACTS) + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A card as people write it: ``metadata`` is its YAML head, ``body`` the Markdown below."""

    metadata: Mapping[str, object]
    body: str

    def __post_init__(self) -> None:
        named = _MARK.findall(self.body)
        wrong = [name for name in named if name not in FACTS]
        absent = [name for name in FACTS if name not in named]
        twice = sorted({name for name in named if named.count(name) > 1})
        for names, complaint in ((wrong, "names unknown facts"), (absent, "leaves out"), (twice, "repeats")):
            if names:
                raise Refused(f"The template of the card {complaint}: {', '.join(names)}.", remedy=_REMEDY)
        _check_metadata(self.metadata)


def head(template: Template, recorded: Mapping[str, object]) -> dict[str, object]:
    """The metadata of a card: what people chose, then what records state."""
    return {**template.metadata, **recorded}


def body(template: Template, facts: Mapping[str, str]) -> str:
    """The Markdown of a card. ``facts`` has Markdown for every name of ``FACTS``."""
    return _MARK.sub(lambda match: f"{match[0]}\n\n{facts[match[1]].strip()}\n\n<!-- end of facts -->", template.body)


def _check_metadata(metadata: Mapping[str, object]) -> None:
    stated = sorted(key for key in metadata if key in RECORDED)
    if stated:
        raise Refused(f"The template states what only records may: {', '.join(stated)}.", remedy="Leave it out.")
    licence = metadata.get("license")
    if not isinstance(licence, str) or not _LICENCE.fullmatch(licence):
        raise Refused("The card's template names no licence of the weights.", remedy="Write 'license: apache-2.0'.")
    if ("base_model" in metadata) != ("base_model_relation" in metadata):
        raise Refused(
            "A base model and its relation are stated together.",
            remedy=f"State base_model and base_model_relation ({', '.join(RELATIONS)}), or neither.",
        )
    if metadata.get("base_model_relation", RELATIONS[0]) not in RELATIONS:
        raise Refused(f"The relation to a base model is one of: {', '.join(RELATIONS)}.")
    for key in ("base_model", "new_version", "datasets"):
        for one in _texts(metadata.get(key, ())):
            checked_repository(one)


def _texts(value: object) -> Sequence[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(one, str) for one in listed):
        raise Refused("Repositories in the head of the card's template are texts.", remedy="Write owner/name.")
    return listed
