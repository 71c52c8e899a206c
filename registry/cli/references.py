"""Arguments that are a name or the digest of a record or artifact, such as ``rung/d48`` and ``sha256:3f2a91c0``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from registry.cli.options import NameType
from registry.core.resolving import Prefix, Reference, reference


class ReferenceType(click.ParamType[Reference]):
    """A name as :class:`NameType` takes it, or the first hex digits of a SHA-256."""

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Reference:
        """Read a name or digest. Raises ``Refused`` for neither and ``UnknownName`` for an unknown stage."""
        found = reference(str(value), (name.partition("@")[0] for name in self._names()))
        return found if isinstance(found, Prefix) else NameType(self._names).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin as typed."""
        return NameType(self._names).shell_complete(ctx, param, incomplete)
