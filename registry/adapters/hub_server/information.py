"""What the hub tells of a repository at a commit: files with their digests, the card, tags, dates."""

from __future__ import annotations

import html
from typing import Any

import pygit2

from registry.adapters.hub_server import cards, history, trees
from registry.adapters.hub_server.naming import Kind
from registry.adapters.hub_server.problems import Problem
from registry.adapters.hub_server.repositories import Repository


def information(repository: Repository, commit: pygit2.Commit, *, with_blobs: bool) -> dict[str, Any]:
    """The answer of ``model_info`` or ``dataset_info``. ``with_blobs`` adds sizes and digests of the files."""
    name = repository.name
    facts = {
        "_id": _id(repository),
        "id": name.id,
        "author": name.owner,
        "sha": str(commit.id),
        "createdAt": history.date(repository.facts.created),
        "lastModified": history.date(commit.commit_time),
        "private": repository.facts.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "siblings": [sibling(entry, with_blobs=with_blobs) for entry in trees.files(repository.git, commit)],
    }
    card = card_of(repository, commit)
    facts |= {"cardData": card} if card else {}
    return facts | _of_kind(name.kind, name.id, card)


def _id(repository: Repository) -> str:
    return f"{repository.facts.created:024x}"


def _of_kind(kind: Kind, identity: str, card: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"tags": cards.tags(card)}
    if kind is Kind.MODEL:
        named = {key: card[key] for key in ("library_name", "pipeline_tag") if isinstance(card.get(key), str)}
        index = {"model-index": card["model-index"]} if isinstance(card.get("model-index"), list) else {}
        facts |= {"modelId": identity, **named, **index}
    return facts


def card_of(repository: Repository, commit: pygit2.Commit) -> dict[str, Any]:
    """The metadata of ``README.md`` at ``commit``; empty when there is none that can be read."""
    try:
        entry = trees.find_file(repository.git, commit, "README.md")
        data = b"" if entry.pointer else trees.content(repository.git, entry)
        return cards.read_card(data.decode("utf-8", errors="replace"))
    except Problem:
        return {}


def sibling(entry: trees.Entry, *, with_blobs: bool) -> dict[str, Any]:
    """One file in the list of a repository's files."""
    row: dict[str, Any] = {"rfilename": entry.path}
    if with_blobs:
        row |= {"blobId": entry.oid, "size": entry.size_bytes}
    if with_blobs and entry.pointer:
        pointer = entry.pointer
        row["lfs"] = {"sha256": pointer.oid, "size": pointer.size_bytes, "pointerSize": pointer.pointer_bytes}
    return row


def listed(entry: trees.Entry) -> dict[str, Any]:
    """One file or folder in the answers of ``tree`` and ``paths-info``."""
    kind = "directory" if entry.is_folder else "file"
    row: dict[str, Any] = {"type": kind, "oid": entry.oid, "size": entry.size_bytes, "path": entry.path}
    if entry.pointer:
        pointer = entry.pointer
        row["lfs"] = {"oid": pointer.oid, "size": pointer.size_bytes, "pointerSize": pointer.pointer_bytes}
    return row


def logged(commit: pygit2.Commit, *, formatted: bool) -> dict[str, Any]:
    """One commit in the answer of ``commits``."""
    title, message = history.title_and_message(commit)
    row: dict[str, Any] = {
        "id": str(commit.id),
        "title": title,
        "message": message,
        "authors": [{"user": commit.author.name}],
        "date": history.date(commit.commit_time),
    }
    if formatted:
        row["formatted"] = {"title": html.escape(title), "message": html.escape(message)}
    return row
