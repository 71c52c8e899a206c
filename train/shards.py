"""Stage ``shards``: documents out of the pinned wheels, as Parquet.

Writes ``artifacts/shards/<domain>/<split>-NNNNN.parquet``, ``report.json`` (what was kept and what was dropped, with
the reasons) and, last, ``shards.parquet``, the table of shards. An exact duplicate is dropped in favour of the first
one by domain, package and path, so no text stands in two domains, or in training and held-out data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.documents import split_of
from registry.errors import DoesNotHold, MalformedRecord, Refused
from train import paths
from train.data.harvest import Bounds, DomainSettings, Harvest, gather, tally
from train.data.sharding import Plan, write_shards
from train.data.wheels import Wheel, open_wheel, verified_bytes
from train.files import fresh_folder, write_json
from train.settings import mapping, mappings

REPORT = "report.json"


def build(settings: Mapping[str, Json], corpus: Path, target: Path) -> Harvest:
    """Write the shards of all wheels in ``corpus`` to ``target``; returns what was kept and dropped.

    Raises ``Refused`` for malformed settings or a domain without settings, ``DoesNotHold`` for a wheel whose bytes are
    not the recorded ones.
    """
    plan = Plan.read(settings)
    harvest = harvested(settings, corpus)
    folder = fresh_folder(target)
    write_json(folder / REPORT, report(harvest, plan))
    write_shards(folder, harvest.documents.values(), plan)
    return harvest


def harvested(settings: Mapping[str, Json], corpus: Path) -> Harvest:
    """The documents of all wheels, in the order of domain, package and path."""
    bounds = Bounds.read(settings)
    domains = mapping(settings, "domains")
    harvest = Harvest()
    for wheel in listed_wheels(corpus):
        if wheel.domain not in domains:
            raise Refused(
                f"The wheel {wheel.name} serves the domain {wheel.domain!r}, which has no settings.",
                remedy="Add it to shards.domains in params.yaml.",
            )
        chosen = DomainSettings.read(wheel.domain, mapping(domains, wheel.domain))
        with open_wheel(wheel, verified_bytes(wheel, corpus / wheel.file)) as archive:
            gather(harvest, wheel, archive, chosen, bounds)
    return harvest


def listed_wheels(corpus: Path) -> Sequence[Wheel]:
    """The wheels that the stage ``corpus`` wrote, in the order of domain and name. Raises ``DoesNotHold``."""
    try:
        table = canonical.decode((corpus / "wheels.json").read_bytes().removesuffix(b"\n"))
        if not isinstance(table, dict):
            raise MalformedRecord("the list of wheels is no object.")
        wheels = [Wheel.read(entry) for entry in mappings(cast(Mapping[str, Json], table), "wheels")]
    except (FileNotFoundError, MalformedRecord, Refused) as error:
        raise DoesNotHold(f"{corpus} is no corpus: {error}", remedy="Run 'dvc repro corpus'.") from error
    return sorted(wheels, key=lambda wheel: (wheel.domain, wheel.name))


def report(harvest: Harvest, plan: Plan) -> Json:
    """Counts by domain and split, and every member that gave no document, with its reason."""
    kept = harvest.documents.values()
    return {
        "kind": "shards-report",
        "schema": 1,
        "documents": tally(f"{one.domain}/{split_of(one.id, plan.heldout_per_10000)}" for one in kept),
        "documents_by_source": tally(one.source for one in kept),
        "dropped": tally(drop.reason for drop in harvest.dropped),
        "drops": [drop.to_json() for drop in harvest.dropped],
    }


if __name__ == "__main__":
    from train.stage import run

    run("shards", lambda settings: build(settings, paths.CORPUS, paths.SHARDS))
