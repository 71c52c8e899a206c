"""``reckon hub``: a Hugging Face Hub of one's own, for rehearsals and for sites without network."""

from __future__ import annotations

from pathlib import Path

import click

from registry.cli import wiring
from registry.cli.options import example, json_option
from registry.cli.render import Fields, emit, talk


@click.group(
    epilog=example(
        "reckon hub serve mirror/",
        "HF_ENDPOINT=http://127.0.0.1:8000 HF_TOKEN_PATH=mirror/tokens/write hf upload lab/model model/",
    )
)
def command() -> None:
    """Serve models and data sets to the Hugging Face client."""


@command.command(epilog=example("reckon hub serve mirror/ --port 0 --json"))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen. Beyond this machine HTTP is in the clear."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@json_option
def serve(folder: Path, host: str, port: int, as_json: bool) -> None:
    """Serve the hub in DIR until a signal ends it; a new DIR begins an empty one.

    Anyone who reaches the address can read what is public. Writing needs the token in DIR/tokens/write, and private
    repositories need it or the one in DIR/tokens/read. The address is printed once the hub takes connections.
    """

    def ready(endpoint: str, token: Path) -> None:
        emit({"endpoint": endpoint, "token": token}, Fields(values={"endpoint": endpoint}), as_json=as_json)
        talk(f"The token that may write is in {token}; HF_TOKEN_PATH can point there.")

    wiring.serve_hub(folder, at=(host, port), ready=ready)
