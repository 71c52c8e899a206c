"""Setups compared: what of an environment and a machine is another than recorded, and what that can do to bits.

Each difference has a grade. ``harmless`` differs and cannot reach the numbers; ``numeric`` is known to reach them;
``unknown`` is everything that nobody has shown to be either, and is treated as if it could. Pure. Refuses nothing: a
fact that one side lacks is a difference like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.records import Environment

_NUMERIC: Final = re.compile(
    r"jax|jaxlib|jax-.*|marin-(levanter|haliax)|levanter|haliax|numpy|scipy|ml-dtypes|optax|equinox|jmp|chex|flax|"
    r"opt-einsum|torch.*|nvidia-.*|triton.*|tokenizers|transformers|pyarrow|safetensors|tensorstore|draccus"
)
_HARMLESS: Final = re.compile(
    r"deadreckon|wandb|mlflow.*|rich|click|tqdm.*|certifi|charset-normalizer|idna|requests|urllib3|httpx|httpcore|anyio|"
    r"aio.*|yarl|multidict|frozenlist|propcache|grpc.*|google-.*|googleapis-.*|opentelemetry-.*|gitpython|gitdb|smmap|"
    r"psutil|platformdirs|pygments|packaging|setuptools|pyopenssl|cryptography|cffi|botocore|jmespath|humanfriendly|"
    r"annotated-types|attrs|filelock|six|typing-.*|uvicorn|starlette|watchfiles|markupsafe|jinja2|sentry-sdk"
)
_ISA_FLAGS: Final = {"SSE4_2": "sse4_2", "AVX": "avx", "AVX2": "avx2", "AVX512": "avx512f"}


class Grade(StrEnum):
    """What a difference can do to bits."""

    NONE = "none"
    HARMLESS = "harmless"
    NUMERIC = "numeric"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a stage ran on: its environment as it was imported, the host's facts, and the recipe's determinism.

    ``environment`` is None where no record tells it.
    """

    environment: Environment | None
    host: Mapping[str, Json]
    determinism: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChange:
    """One fact of a setup that is another, and its grade. None where a side lacks it."""

    fact: str
    recorded: str | None
    found: str | None
    grade: Grade

    @property
    def can_change_bits(self) -> bool:
        """Whether a difference of results may come from this."""
        return self.grade in (Grade.NUMERIC, Grade.UNKNOWN)


def setup_changes(recorded: Setup, found: Setup, scripted: frozenset[str] = frozenset()) -> tuple[SetupChange, ...]:
    """Everything that differs, the numeric first, then the unknown, then the harmless; each by fact.

    What the recorded run did not tell cannot be compared: neither a distribution that it did not import, nor a fact
    that it left out. Of those in ``scripted`` the scripts name the environment's folder, and so their RECORD is another
    in every place.
    """
    old, new = dict(_facts(recorded)), dict(_facts(found))
    keys = sorted(old.keys() | {key for key in new if key.startswith("determinism ")})
    if recorded.environment is None or found.environment is None:
        keys = [key for key in keys if key in old and key in new]
    pinned = "nproc" in recorded.determinism
    changed = [
        SetupChange(fact=key, recorded=old.get(key), found=new.get(key), grade=_grade(key, pinned))
        for key in keys
        if _differ(old.get(key), new.get(key))
    ]
    moved = {f"distribution {_normal(name)}" for name in scripted}
    changed = [replace(one, grade=Grade.HARMLESS) if one.fact in moved and _rebuilt(one) else one for one in changed]
    order = (Grade.NUMERIC, Grade.UNKNOWN, Grade.HARMLESS)
    return tuple(sorted(changed, key=lambda one: (order.index(one.grade), one.fact)))


def lacking_instructions(determinism: Mapping[str, Json], processor_flags: frozenset[str]) -> SetupChange | None:
    """A difference when the processor lacks the instruction set that the recipe compiles for."""
    wanted = str(determinism.get("max_isa", "")).upper()
    flag = _ISA_FLAGS.get(wanted)
    if flag is None or not processor_flags or flag in processor_flags:
        return None
    return SetupChange(fact="processor instructions", recorded=wanted, found=f"without {flag}", grade=Grade.NUMERIC)


def _facts(setup: Setup) -> Iterator[tuple[str, str]]:
    yield from ((f"determinism {key}", _text(value)) for key, value in setup.determinism.items())
    for key in ("name", "processor", "cores", "memory_bytes"):
        if key in setup.host:
            yield f"host {key}", _text(setup.host[key])
    if setup.environment is not None:
        yield from _imported(setup.environment)


def _imported(told: Environment) -> Iterator[tuple[str, str]]:
    yield "python", told.python
    yield from ((f"platform {key}", _text(value)) for key, value in told.platform.items() if key != "cores")
    yield from ((f"accelerator {key}", _text(value)) for key, value in told.accelerator.items())
    for one in told.distributions:
        yield f"distribution {_normal(str(one.get('name')))}", _distribution(one)


def _distribution(told: Mapping[str, Json]) -> str:
    record = told.get("record")
    return str(told.get("version")) + (f" RECORD {record.partition(':')[2][:12]}" if isinstance(record, str) else "")


def _differ(recorded: str | None, found: str | None) -> bool:
    """Whether two texts differ; a RECORD that only one side knows is not compared."""
    if recorded is None or found is None:
        return recorded != found
    if (" RECORD " in recorded) == (" RECORD " in found):
        return recorded != found
    return recorded.partition(" RECORD ")[0] != found.partition(" RECORD ")[0]


def _rebuilt(change: SetupChange) -> bool:
    """Whether only the RECORD of a distribution is another, and the version the same."""
    versions = {(side or "").partition(" ")[0] for side in (change.recorded, change.found)}
    return len(versions) == 1 and "" not in versions


def _grade(fact: str, pinned: bool) -> Grade:
    kind, _, name = fact.partition(" ")
    if kind == "distribution":
        return Grade.NUMERIC if _NUMERIC.fullmatch(name) else _harmless(bool(_HARMLESS.fullmatch(name)))
    if kind == "determinism" or fact in ("platform machine", "accelerator kind", "accelerator name"):
        return Grade.NUMERIC
    if fact == "accelerator count":
        return Grade.NUMERIC
    if fact == "host cores":
        return Grade.HARMLESS if pinned else Grade.NUMERIC
    return _harmless(fact in ("host name", "host memory_bytes", "platform release"))


def _harmless(told: bool) -> Grade:
    return Grade.HARMLESS if told else Grade.UNKNOWN


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical.encode(value).decode()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
