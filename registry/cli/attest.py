"""``reckon attest``: sign that an artifact was derived again, or take another's word for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import adopting, trusting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Cell, Fields, Mark, Table, Tone, emit, talk
from registry.core.names import Name
from registry.errors import ReckonError

if TYPE_CHECKING:
    from registry.workflows.attest import Kept

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLUMNS = ("artifact", "who", "outcome", "tier", "setup", "trust")


@click.command(
    epilog=example(
        "reckon attest hero/2 --key ~/keys/other-lab.pem --who 'Other Lab' --out hero-2.dsse.json",
        "reckon attest --add hero-2.dsse.json",
        "reckon attest --list",
    )
)
@click.argument("name", type=NameType(wiring.names), required=False)
@click.option("--key", "key_place", metavar="FILE|URI", help="The private key: a file, or a pkcs11: URI.")
@click.option("--who", help="Who attests: a short line.")
@click.option("--execution", "executions", multiple=True, metavar="DIGEST", help="Instead of those of this host.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the envelope here too, to send it on.")
@click.option("--add", "added", type=_FILE, help="Take another's envelope instead of signing one.")
@click.option("--list", "listing", is_flag=True, help="List the attestations on record, of NAME or all.")
@trusting.passphrase_option
@trusting.trust_option
@json_option
def command(name: Name | None, as_json: bool, **how: Any) -> None:
    """Sign that executions on record made NAME again: tier, setup, steps and the digests of what came out.

    The executions of this host count, or those that are named: whole runs that gave the recorded product, and windows
    that 'reckon rederive' replayed. The attestation is a record; 'reckon audit' shows it as a witness.
    """
    attestor = trusting.attestor(wiring.root(), how["trust_file"])
    if how["listing"]:
        _list(attestor.listed(None if name is None else name.stage), as_json)
        return
    if (name is None) == (how["added"] is None):
        raise click.UsageError("Give a NAME to attest, or --add FILE, or --list.")
    if how["added"] is not None:
        _tell(attestor.keep(trusting.envelope(how["added"])), as_json)
        return
    if name is None or not how["key_place"] or not how["who"]:
        raise click.UsageError("To attest needs --key and --who.")
    adopting.refuse_foreign(name)
    key = trusting.signing_key(how["key_place"], how["passphrase_file"])
    draft = attestor.draft(name, how["who"], how["executions"])
    envelope = trusting.signed(draft.statement, key)
    kept = attestor.keep(envelope)
    if how["out"] is not None:
        trusting.write_envelope(how["out"], envelope)
    _tell(kept, as_json)


def _tell(kept: Kept, as_json: bool) -> None:
    said = kept.attested.rederivation
    values: dict[str, Cell] = {
        "artifact": said.stage,
        "outcome": Mark(said.outcome, Tone.GOOD if said.outcome == "agrees" else Tone.BAD),
        "tier": said.coverage,
        "setup": said.machine,
        "trust": kept.attested.judgement.text if kept.attested.judgement else "",
    }
    path = f"manifests/attestations/{kept.digest.hex}.json"
    emit(_facts(kept), Fields(values=values), f"Commit it: git add {path}", as_json=as_json)


def _list(found: Iterable[Kept | ReckonError], as_json: bool) -> None:
    kept = []
    for one in found:
        if isinstance(one, ReckonError):
            talk(str(one))
        else:
            kept.append(one)
    view = Table(columns=_COLUMNS, rows=[_row(one) for one in kept]) if kept else "No attestation is on record."
    emit({"attestations": [_facts(one) for one in kept]}, view, as_json=as_json)


def _row(kept: Kept) -> list[Cell]:
    attested, said = kept.attested, kept.attested.rederivation
    worth = attested.damage or (attested.judgement.text if attested.judgement else "")
    tone = Tone.GOOD if attested.counts else Tone.BAD
    return [said.stage, attested.by, said.outcome, said.coverage, said.machine, Mark(worth, tone)]


def _facts(kept: Kept) -> dict[str, object]:
    attested, said = kept.attested, kept.attested.rederivation
    return {
        "record": kept.digest,
        "key": attested.key_id,
        "trust": attested.judgement,
        "damage": attested.damage,
        **said.predicate(),
    }
