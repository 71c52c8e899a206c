"""A trust policy says which key may sign what, and when; what it does not say clearly is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.core.digests import sha256
from registry.core.publickeys import PublicKey
from registry.core.trust import Act, Trust, TrustPolicy, without_policy
from registry.core.trustedit import entry, find, revoked
from registry.errors import MalformedRecord, Refused, UnknownName

PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
KEYS = [PublicKey(PREFIX + bytes([number]) * 64) for number in range(2)]
NOON = "2026-11-30T12:00:00.000000Z"


def policy_bytes(*settings: str, head: str = "schema = 1") -> bytes:
    """One entry a key; each has some settings."""
    entries = [
        f"# a comment\n[[key]] # and one here\nwho = \"Lab {number}\"\npublic_key = '''\n{key.pem}'''\n{one}\n"
        for number, (key, one) in enumerate(zip(KEYS, settings, strict=False))
    ]
    return "\n".join([head, *entries]).encode()


def judged(settings: str, name: str = "pocket", time: str = NOON, act: Act = Act.RELEASE) -> tuple[Trust, str]:
    found = TrustPolicy.parse(policy_bytes(settings)).judge(KEYS[0].id, name, time, act)
    return found.trust, found.text


@pytest.mark.parametrize(
    ("patterns", "name", "trusted"),
    [
        ('["pocket"]', "pocket", True),
        ('["pocket"]', "pocket-2", False),
        ('["pocket-*"]', "pocket-2", True),
        ('["*"]', "anything", True),
        ('["POCKET"]', "pocket", False),
        ('["rocket", "pocket"]', "pocket", True),
    ],
)
def test_a_key_signs_the_names_that_it_may(patterns: str, name: str, trusted: bool) -> None:
    assert (judged(f"releases = {patterns}", name)[0] is Trust.TRUSTED) is trusted


def test_releases_and_attestations_are_two_rights() -> None:
    assert judged('releases = ["*"]', act=Act.ATTEST)[0] is Trust.REFUSED
    assert judged('attests = ["hero/*"]', name="hero/2", act=Act.ATTEST)[0] is Trust.TRUSTED
    assert judged('attests = ["*"]')[0] is Trust.REFUSED


@pytest.mark.parametrize(
    ("settings", "time", "said"),
    [
        ("end = 2026-11-30T12:00:00Z", NOON, "ended at"),
        ("end = 2026-11-30T12:00:00.000001Z", NOON, ""),
        ("end = 2026-11-30T13:00:00+01:00", NOON, "ended at"),
        ("end = 2026-12-01", NOON, ""),
        ("valid_from = 2026-11-30T12:00:00Z", NOON, ""),
        ("valid_from = 2026-11-30T12:00:00.000001Z", NOON, "is valid from"),
        ("end = 2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z", "ended at"),
        ("end = 2026-11-30T12:00:00.5Z", "2026-11-30T12:00:00Z", ""),
        ("", "yesterday", "no time"),
        ("", "2026-11-30 12:00", "no time"),
    ],
)
def test_a_key_counts_from_its_first_day_until_its_end(settings: str, time: str, said: str) -> None:
    trust, text = judged(f'releases = ["*"]\n{settings}', time=time)
    assert (trust is Trust.TRUSTED) is (said == "")
    assert said in text


def test_rotation_is_two_keys_that_follow_each_other() -> None:
    policy = TrustPolicy.parse(
        policy_bytes('releases = ["*"]\nend = 2026-12-01', 'releases = ["*"]\nvalid_from = 2026-12-01')
    )
    december = "2026-12-01T00:00:00.000000Z"
    assert [policy.judge(key.id, "a", NOON).trust for key in KEYS] == [Trust.TRUSTED, Trust.REFUSED]
    assert [policy.judge(key.id, "a", december).trust for key in KEYS] == [Trust.REFUSED, Trust.TRUSTED]


def test_a_revoked_key_counts_at_no_time() -> None:
    trust, text = judged('releases = ["*"]\nrevoked = "lost"', time="2020-01-01T00:00:00.000000Z")
    assert (trust, "was revoked: lost" in text) == (Trust.REFUSED, True)


def test_an_unknown_key_is_refused_by_a_policy_and_told_without_one() -> None:
    policy = TrustPolicy.parse(b"schema = 1\n")
    assert policy.judge(KEYS[0].id, "a", NOON).trust is Trust.REFUSED
    assert without_policy(KEYS[0].id).text == f"attested by unknown key {KEYS[0].id[:12]}"
    assert without_policy(KEYS[0].id).accepted


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"schema = 2", "schema = 1"),
        (b"", "schema = 1"),
        (b"schema = 1\nmore = 2", "unknown settings: more"),
        (b"schema = 1\nkey = 3", "list of tables"),
        (b"schema = 1\nkey = [3]", "must be a table"),
        (b"schema = true", "whole number"),
        (b"= 1", "not TOML"),
        (b"\xff", "not TOML"),
        (b"schema = 1\na = " + b"[" * 5000, "not TOML"),
        (b"#" * (2**20 + 1), "over the limit"),
        (policy_bytes(""), "may sign nothing"),
        (policy_bytes('releases = "*"'), "list of short texts"),
        (policy_bytes('releases = [""]'), "list of short texts"),
        (policy_bytes('releases = ["*"]\nende = 2027-01-01'), "unknown settings: ende"),
        (policy_bytes('releases = ["*"]\nend = "2027-01-01"'), "'end' must be a day"),
        (policy_bytes('releases = ["*"]\nend = 2027-01-01T00:00:00'), "'end' must be a day"),
        (policy_bytes('releases = ["*"]\nrevoked = true'), "'revoked' must be text"),
        (policy_bytes('releases = ["*"]\nrevoked = ""'), "'revoked' must be"),
        (policy_bytes('releases = ["*"]\nkeeps = ["x"]'), "not a digest"),
        (policy_bytes('releases = ["*"]\nend = 2026-01-01\nvalid_from = 2026-01-01'), "ends before"),
        (policy_bytes('releases = ["*"]') + policy_bytes('releases = ["*"]', head=""), "twice"),
        (b'schema = 1\n[[key]]\nwho = "x"\nreleases = ["*"]\n', "needs 'who' and 'public_key'"),
    ],
)
def test_an_unclear_policy_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(MalformedRecord, match=said):
        TrustPolicy.parse(data)


@pytest.mark.parametrize("which", [0, 1])
def test_revoking_changes_one_entry_and_nothing_else(which: int) -> None:
    before = policy_bytes('releases = ["*"]', 'attests = ["*"]')
    keeps = [sha256(b"known")]
    after = revoked(before, KEYS[which].id, 'a "quoted"\\ reason', keeps)
    old, new = TrustPolicy.parse(before), TrustPolicy.parse(after)
    changed = replace(old.keys[KEYS[which].id], revoked='a "quoted"\\ reason', keeps=frozenset(keeps))
    assert new.keys == {**old.keys, KEYS[which].id: changed}
    assert [line for line in before.decode().splitlines() if line not in after.decode().splitlines()] == []
    with pytest.raises(Refused, match="revoked already"):
        revoked(after, KEYS[which].id, "again", [])


@pytest.mark.parametrize(
    "data",
    [
        policy_bytes('releases = ["*"]').replace(b"[[key]] # and one here", b"[[ key ]]"),
        f'schema = 1\nkey = [{{who = "x", releases = ["*"], public_key = """{KEYS[0].pem}"""}}]'.encode(),
    ],
    ids=["spaces", "inline"],
)
def test_what_cannot_be_changed_in_place_is_left_to_a_person(data: bytes) -> None:
    with pytest.raises(Refused, match="cannot be changed in place"):
        revoked(data, KEYS[0].id, "lost", [])


def test_an_entry_is_read_back_as_it_was_meant() -> None:
    key = TrustPolicy.parse(policy_bytes('releases = ["a", "b-*"]\nattests = ["*"]\nend = 2027-01-01')).keys[KEYS[0].id]
    assert TrustPolicy.parse(f"schema = 1\n{entry(key)}".encode()).keys == {KEYS[0].id: key}


def test_a_key_is_found_by_its_first_digits() -> None:
    policy = TrustPolicy.parse(policy_bytes('releases = ["*"]', 'releases = ["*"]'))
    assert find(policy, KEYS[1].id[:8]) == KEYS[1].id
    for text in ("", KEYS[1].id[:7], "0" * 64):
        with pytest.raises(UnknownName):
            find(policy, text)
