"""``reckon release push|checkpoints|yank|supersede``: what puts a release on a hub, and what is said of it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from registry.cli import pushing, trusting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Fields, Mark, Table, Tone, emit, progress, talk
from registry.cli.words import amount, count
from registry.core.publications import checked_repository

private_option = click.option("--private", is_flag=True, help="Should the repository be made, make it a private one.")
reason_option = click.option("--reason", required=True, help="Why, in a sentence that users can act on.")
notice_key_option = click.option(
    "--key", "key_place", metavar="FILE|URI", help="Sign the notice: a key file, or a pkcs11: URI; else nobody does."
)
erratum_option = click.option("--erratum", help="What is wrong with the release, for those who use it already.")


@click.command(
    epilog=example(
        "reckon release push pocket-moe@1.0.0 lab/pocket-moe",
        "reckon release push artifacts/releases/pocket-moe/1.0.0 lab/pocket-moe --check",
    )
)
@click.argument("name", metavar="NAME@X.Y.Z|DIR")
@click.argument("repo", metavar="ORG/REPO")
@click.option("--check", "check_only", is_flag=True, help="Only look whether it would work; nothing is sent.")
@private_option
@trusting.trust_option
@json_option
def push(name: str, repo: str, as_json: bool, **how: Any) -> None:
    """Publish a release: its files on a branch of their own, every byte pulled back, its tag, and then main.

    main is the old release or this one and never a mixture. Whatever fails leaves it where it was; the same command
    goes on from what the hub holds. The hub is that of HF_ENDPOINT, the token that of HF_TOKEN or HF_TOKEN_PATH.
    """
    archive = wiring.root()
    parcel = pushing.parcel(pushing.release_folder(name), repo, how["trust_file"])
    pusher = pushing.pusher(archive, pushing.site(repo))
    plan = pusher.plan(parcel)
    for advice in plan.advice:
        talk(advice)
    talk(_estimate(plan.user, repo, count(plan.files, "file"), plan.size_bytes, plan.new_bytes))
    if how["check_only"]:
        emit({"plan": plan}, Mark(f"{plan.statement.identity} can be pushed to {repo}.", Tone.GOOD), as_json=as_json)
        return
    with progress("Sending and reading back", 2 * plan.size_bytes, in_bytes=True) as advance:
        moving = replace(pusher, site=replace(pusher.site, advance=advance))
        done = moving.push(parcel, plan.statement, private=how["private"])
    version = pushing.tell_tracker(archive, plan.statement, done.publication)
    one, path = done.publication, f"manifests/publications/{done.digest.hex}.json"
    values = {"commit": one.commit, "tag": one.tag or "", "main": one.head, "registered version": version or "none"}
    told = "Published" if done.fresh else "Was published already:"
    emit(
        {"fresh": done.fresh, "record": done.digest, "registered_version": version, **one.to_json()},
        Mark(f"{told} {one.name} at hf://{repo}@{one.tag}", Tone.GOOD),
        Fields(values=values),
        f"Commit it: git add {path}",
        as_json=as_json,
    )


@click.command(
    epilog=example(
        "reckon release checkpoints hero/2@step-594 lab/pocket-moe",
        "reckon release checkpoints pocket-moe@1.0.0 lab/pocket-moe",
    )
)
@click.argument("name", metavar="CHECKPOINT|NAME@X.Y.Z|DIR")
@click.argument("repo", metavar="ORG/REPO")
@private_option
@json_option
def checkpoints(name: str, repo: str, private: bool, as_json: bool) -> None:
    """Publish every kept checkpoint that led to CHECKPOINT, or that a release lists, each to a branch of its own.

    A branch is called after segment, step and tokens, such as stage2-step846-tokens0.000866304B, and appears when every
    byte was pulled back. What is there already stays, so that a cut push goes on.
    """
    archive = wiring.root()
    checked_repository(repo)
    ledger = wiring.ledger(archive)
    kept = pushing.kept(archive, ledger, name)
    size_bytes = sum(pushing.recorded(ledger, one).size_bytes for one in kept)
    talk(f"{count(len(kept), 'checkpoint')} of {amount(size_bytes)} go to {repo}.")
    with progress("Sending and reading back", 2 * size_bytes, in_bytes=True) as advance:
        workflow = pushing.trajectory(archive, pushing.site(repo, advance), ledger)
        done = []
        for one in workflow.publish(kept, private=private):
            advance(0 if one.fresh else 2 * one.size_bytes)
            done.append(one)
    rows = [[one.name, one.branch, one.commit[:12], "new" if one.fresh else "was there"] for one in done]
    table = Table(columns=("checkpoint", "branch", "commit", "state"), rows=rows)
    emit({"checkpoints": done}, table, "Commit the records: git add manifests/publications", as_json=as_json)


@click.command(
    epilog=example(
        "reckon release yank pocket-moe@1.0.0 lab/pocket-moe --reason 'Wrong tokenizer.' --key ~/keys/release.pem"
    )
)
@click.argument("name", metavar="NAME@X.Y.Z")
@click.argument("repo", metavar="ORG/REPO")
@reason_option
@erratum_option
@notice_key_option
@trusting.passphrase_option
@json_option
def yank(name: str, repo: str, **how: Any) -> None:
    """Take a published release back: the card on main says so, and 'pull' and 'audit' warn. Its bytes stay."""
    _announce(name, repo, how)


@click.command(
    epilog=example(
        "reckon release supersede pocket-moe@1.0.0 lab/pocket-moe --by 1.0.1 --reason 'Trained on one shard twice.'"
    )
)
@click.argument("name", metavar="NAME@X.Y.Z")
@click.argument("repo", metavar="ORG/REPO")
@click.option("--by", "successor", required=True, metavar="X.Y.Z", help="The published version that replaces it.")
@reason_option
@erratum_option
@notice_key_option
@trusting.passphrase_option
@json_option
def supersede(name: str, repo: str, **how: Any) -> None:
    """Name the successor of a published release: the card on main says so, and 'pull' and 'audit' warn."""
    _announce(name, repo, how)


COMMANDS: Sequence[click.Command] = (push, checkpoints, yank, supersede)


def _announce(name: str, repo: str, how: Mapping[str, Any]) -> None:
    archive, words = wiring.root(), (how["reason"], how["erratum"], how.get("successor"))
    key = trusting.signing_key(how["key_place"], how["passphrase_file"]) if how["key_place"] else None
    done = pushing.announcer(archive, pushing.site(repo), key).announce(pushing.wish(archive, name, repo, words))
    path = f"manifests/notices/{done.digest.hex}.json"
    by = trusting.checker().noticed(done.notice)
    emit(
        {"record": done.digest, "main": done.head, **done.notice.to_json()},
        Mark(done.notice.sentence, Tone.DOUBT),
        Fields(values={"stands on main at": done.head, "the release stays at": done.notice.commit, "signed": by}),
        f"Commit it: git add {path}",
        as_json=how["as_json"],
    )


def _estimate(user: str, repo: str, files: str, size_bytes: int, new_bytes: int) -> str:
    return (
        f"{user} pushes {files} of {amount(size_bytes)} to {repo}; its quota is charged with up to {amount(new_bytes)}."
    )
