"""What an audit judges: the records of one lineage, and what was found when somebody looked at the bytes.

Gathered by a workflow, from an archive or from a bundle; the rules see no difference. What was not looked at is absent
here, and then an edge is only claimed. Refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from registry.core.attestation import Attested
from registry.core.digests import Digest
from registry.core.findings import Finding
from registry.core.forecast import Forecast
from registry.core.gitobjects import GitTrees
from registry.core.happened import Happened
from registry.core.incidents import Incidents
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, Link
from registry.core.names import Name
from registry.core.program import Program, Relowered
from registry.core.records import Execution, Output, Product, Recipe, Revision
from registry.core.withheld import Withheld
from registry.errors import ReckonError

TRANSCRIPT, ORDER, HISTORY = "transcript.jsonl", "order.json", "history.parquet"
EVALUATION, SUMMARY, FORECAST = "evaluation.json", "summary.json", "forecast.json"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
JUDGED_ALONE = (TRANSCRIPT, ORDER, HISTORY)
PAPERS = (*JUDGED_ALONE, EVALUATION, SUMMARY)

ReadPaper: TypeAlias = Callable[[str, Digest], bytes]
ReadSettings: TypeAlias = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A file table that was checked: its sums, and the digests of files and folders in it that were asked for."""

    files: int
    size_bytes: int
    parts: Mapping[str, Digest | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """What was found when the bytes of a product were hashed.

    ``outputs`` are the names of the outputs that were looked at, ``broken`` those in which something is wrong or
    missing, ``private`` those of which declared files are missing.
    """

    outputs: frozenset[str]
    broken: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What a tracker holds of an execution: findings, or None where it was consulted and agrees."""

    system: str
    where: str
    points: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A product of the lineage with its recipe, the executions that gave it (oldest first) and what it was made from.

    ``label`` is its stage, with a digest behind it when the lineage has several products of the stage. ``rivals`` are
    other products of the same recipe and how often they came out; ``attempts`` are all executions of the stage.
    ``first_start`` and ``first_end`` are when its executions first began, and first ended.
    """

    label: str
    digest: Digest
    product: Product
    recipe: Recipe | None
    executions: tuple[tuple[Digest, Execution], ...]
    links: tuple[Link, ...]
    rivals: tuple[tuple[Digest, int], ...] = ()
    attempts: Mapping[str, Execution] = field(default_factory=dict)
    first_start: str | None = None
    first_end: str | None = None

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """Where the code stood in its executions, each once."""
        return tuple(dict.fromkeys(execution.revision for _, execution in self.executions))

    @property
    def trained(self) -> bool:
        """Whether it kept checkpoints: a rung or a segment."""
        return any("step" in output.contents for output in self.product.outputs)

    @property
    def own(self) -> tuple[Output, ...]:
        """The outputs that are not checkpoints inside another."""
        return tuple(output for output in self.product.outputs if "step" not in output.contents)

    @property
    def kept(self) -> tuple[tuple[int, Output], ...]:
        """The kept checkpoints by step, ascending."""
        steps = ((Name.parse(output.name).step, output) for output in self.product.outputs)
        return tuple(sorted(((step, one) for step, one in steps if step is not None), key=lambda pair: pair[0]))

    def named(self, name: str) -> str:
        """The name of an output or checkpoint, marked like the label."""
        return name.replace(self.product.stage, self.label, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the rules may look at. ``nodes`` are in the order of the walk, the audited product first.

    ``current`` are the products that are the newest of their stage: the others no longer lie in a working tree.
    ``surveyed`` is by tree and ``leaves`` by tensor root, with the error where a table does not hold. ``git`` and
    ``additions`` (record path → commit that added it) are None where no repository was consulted; ``precedes`` says
    whether a commit is an ancestor of another or the same; ``sealed`` when a forecast was there for the first time.
    ``attested`` are attestations by the recipe that they speak of, signatures checked.
    ``programs`` are program records by recipe, ``relowered`` what came of lowering them again.
    ``altered`` are committed records that changed, ``damages`` says what is wrong with records outside of the ledger;
    ``imported`` is for the rules themselves: what was read of an environment once.
    """

    ledger: Ledger
    nodes: Mapping[Digest, Node]
    current: frozenset[Digest]
    surveyed: Mapping[Digest, Surveyed | ReckonError]
    leaves: Mapping[Digest, int | ReckonError]
    paper: ReadPaper
    settings: ReadSettings
    git: GitTrees | None = None
    additions: Mapping[str, str] | None = None
    precedes: Callable[[str, str], bool] = lambda _earlier, _later: False
    forecasts: Mapping[Digest, Forecast | ReckonError] = field(default_factory=dict)
    sealed: Mapping[Digest, str | None] = field(default_factory=dict)
    withheld: Mapping[Digest, Withheld] = field(default_factory=dict)
    custody: Mapping[Digest, Custody] = field(default_factory=dict)
    copies: Mapping[Digest, tuple[Copy, ...]] = field(default_factory=dict)
    incidents: Incidents = field(default_factory=Incidents)
    happened: Happened = field(default_factory=Happened)
    attested: Mapping[Digest, tuple[Attested, ...]] = field(default_factory=dict)
    programs: Mapping[Digest, tuple[Program, ...]] = field(default_factory=dict)
    relowered: Mapping[Digest, tuple[Relowered, ...]] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    damages: tuple[str, ...] = ()
    imported: dict[Digest, Mapping[str, str]] = field(default_factory=dict)

    def part(self, output: Output, path: str) -> Digest | None:
        """The digest of a file or folder of an output; None when the record has none or its table does not hold."""
        found = self.surveyed.get(output.digest)
        return found.parts.get(path) if isinstance(found, Surveyed) else None

    def hashed(self, artifact: Artifact) -> bool:
        """Whether the bytes of an artifact were hashed here and nothing in them is wrong."""
        custody = self.custody.get(artifact.product)
        name = artifact.output.name
        return custody is not None and name in custody.outputs - custody.broken - custody.private

    def trained_nodes(self) -> Iterator[Node]:
        """Rungs and segments."""
        return (node for node in self.nodes.values() if node.trained)


def is_time(text: str) -> bool:
    """Whether a time is spelled as records spell it: UTC with microseconds, so that order of text is order of time."""
    return _TIME.fullmatch(text) is not None


def holders(path: str, by_path: Mapping[str, Output]) -> Iterator[tuple[Output, str]]:
    """The outputs whose folder ``path`` lies in, each with the path inside it."""
    folder = path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if folder in by_path:
            yield by_path[folder], path[len(folder) + 1 :]
