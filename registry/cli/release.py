"""``reckon release``: turn an export into a signed folder that explains itself, check one, and publish it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.cli import publishing, released, releasing, trusting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Mark, Tone, emit, progress
from registry.core.names import Name
from registry.core.release import Identity

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(
    epilog=example(
        "reckon release build export --name pocket-moe --version 1.0.0 --repo lab/pocket-moe --key ~/keys/release.pem",
        "reckon release list",
        "reckon release verify artifacts/releases/pocket-moe/1.0.0",
    )
)
def command() -> None:
    """Build releases, check them, and put them on a hub.

    A release is a folder of weights with everything that explains them: a model card made from records, signed
    provenance of every stage, the bundle that an audit needs, and a signature over all of it.
    """


for _one in (*released.COMMANDS, *publishing.COMMANDS):
    command.add_command(_one)


@command.command(
    epilog=example(
        "reckon release build export --name pocket-moe --version 1.0.0 --repo lab/pocket-moe --key ~/keys/release.pem",
        "reckon release build export --name pocket-moe --version 1.0.1 --repo lab/pocket-moe --key release.pem -o out",
    )
)
@click.argument("artifact", metavar="NAME", type=NameType(wiring.names))
@click.option("--name", required=True, help="What the release is called, such as pocket-moe.")
@click.option("--version", required=True, metavar="X.Y.Z", help="Its version; versions only go up.")
@click.option("--repo", "repository", required=True, metavar="ORG/REPO", help="The repository that it is for.")
@trusting.key_option
@trusting.passphrase_option
@click.option("--accept-taint", metavar="REASON", help="Release tainted data, and print the reason on the card.")
@click.option("--card", type=_FILE, help="Template of the model card; else card.md of the archive.")
@click.option(
    "--time", metavar="TIME", help="When it was built, if not now: with it, equal evidence gives equal bytes."
)
@click.option("-o", "--output", type=_FOLDER, help="The folder to make; else artifacts/releases/<name>/<version>.")
@json_option
def build(artifact: Name, as_json: bool, **how: Any) -> None:
    """Check the export NAME and everything that it was made from, and make a signed release of it.

    Whole or not at all. Refuses what cannot be released, and says why: code in no commit, contradictions, tainted data,
    sources without a licence, an audit that does not hold, tensors that are not the checkpoint's, and secrets.
    """
    from registry.workflows.release import Request

    archive = wiring.root()
    identity = Identity(name=how["name"], version=how["version"], repository=how["repository"])
    target = how["output"] or archive / releasing.RELEASES / identity.folder
    request = Request(
        artifact=artifact,
        identity=identity,
        template=releasing.template(archive, how["card"]),
        accept_taint=how["accept_taint"],
        time=how["time"],
    )
    key = releasing.key(how["key_place"], how["passphrase_file"])
    with progress("Checking", None, in_bytes=True) as advance:
        made = releasing.builder(archive, advance).build(
            request, releasing.Sealer(key), lambda: releasing.draft(archive, target, key)
        )
    record = f"manifests/releases/{made.record.hex}.json"
    emit(
        {"folder": target, "record": record, **made.release.to_json()},
        Mark(f"Built {identity} in {_short(target)}", Tone.GOOD),
        released.fields_of(made.release),
        f"Commit it: git add {record}",
        f"Check it: reckon release verify {_short(target)}",
        as_json=as_json,
    )


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
