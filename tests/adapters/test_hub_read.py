"""Reading from hubs that lie, leak or stall: each is caught by its own words, and the token goes nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.liar import Answer, Liar

from registry.adapters.hub_read import HubReader
from registry.adapters.hub_read.wire import Pace, Passing
from registry.core import pulling
from registry.core.digests import git_blob, sha256
from registry.core.pulling import Listing, Reference, RemoteFile
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, Refused, UnknownName, Unreachable

DATA = bytes(range(256)) * 40
COMMIT, OTHER = "a" * 40, "b" * 40
REFERENCE = Reference.parse("hf://lab/m@v1.0.0")
FILE = RemoteFile(path="w.bin", size_bytes=len(DATA), claimed=sha256(DATA))


def reader(liar: Liar) -> HubReader:
    return HubReader.at(liar.endpoint, "secret")


def listing(file: RemoteFile = FILE) -> Listing:
    return pulling.listing(REFERENCE, COMMIT, [file])


def read(
    liar: Liar, answer: Answer | Callable[[dict[str, str]], Answer], start: int = 0, stop: int = len(DATA)
) -> bytes:
    liar.answers[f"/lab/m/resolve/{COMMIT}/w.bin"] = answer
    return b"".join(reader(liar).read(listing(), FILE, start, stop))


def test_the_token_goes_to_the_hub_and_to_no_other_host(liar):
    elsewhere = f"http://localhost:{liar.server.server_port}/store"
    liar.answers["/store"] = (200, {}, DATA)
    assert read(liar, (302, {"Location": elsewhere, "X-Repo-Commit": COMMIT}, b"")) == DATA
    assert [headers.get("authorization") for _, headers in liar.seen] == ["Bearer secret", None]
    assert read(liar, (307, {"Location": "/store"}, b"")) == DATA
    assert liar.seen[-1][1].get("authorization") == "Bearer secret"


@pytest.mark.parametrize(
    "location",
    ["", "file:///etc/passwd", "ftp://x/y", "http://user:pass@localhost/x", "https://[/x", "http://x:99999/"],
)
def test_redirects_that_are_not_followed(liar, location):
    with pytest.raises(OutsideFailed, match="not followed"):
        read(liar, (302, {"Location": location}, b""))


def test_redirects_end(liar):
    with pytest.raises(OutsideFailed, match="without an end"):
        read(liar, (302, {"Location": f"/lab/m/resolve/{COMMIT}/w.bin"}, b""))


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X-Repo-Commit": OTHER}, "revisions are mixed"),
        ({"X-Linked-Etag": f'"{sha256(b"").hex}"'}, "but sent with"),
        ({"X-Linked-Size": "7"}, "but sent with 7"),
    ],
)
def test_a_file_that_is_told_otherwise_than_listed(liar, headers, words):
    with pytest.raises(DoesNotHold, match=words):
        read(liar, (200, headers, DATA))


def test_a_short_file_is_told_apart_from_a_cut_one(liar):
    with pytest.raises(DoesNotHold, match=f"lists .* {len(DATA)} bytes, but has 100"):
        read(liar, (200, {}, DATA[:100]))
    with pytest.raises(DoesNotHold, match="but has 100"):
        read(liar, (206, {"Content-Range": "bytes 50-99/100"}, DATA[50:100]), 50)
    with pytest.raises(DoesNotHold, match="shorter than"):
        read(liar, (416, {}, b""), 50)


def test_another_range_than_asked_is_refused(liar):
    with pytest.raises(OutsideFailed, match="another range"):
        read(liar, (206, {"Content-Range": f"bytes 0-49/{len(DATA)}"}, DATA[:50]), 50, 100)


def test_a_hub_without_ranges_costs_bytes_and_no_more(liar):
    assert read(liar, (200, {}, DATA), 50, 100) == DATA[50:100]


def test_a_hub_without_ranges_is_asked_once_for_all_blocks(liar, monkeypatch):
    monkeypatch.setattr("registry.adapters.hub_read.hub.BLOCK_BYTES", 1000)
    assert read(liar, (200, {}, DATA)) == DATA
    assert len(liar.seen) == 1
    assert read(liar, (200, {}, DATA), 50, 5000) == DATA[50:5000]
    assert len(liar.seen) == 2


def test_numbers_that_are_none_and_refs_of_another_form_fail_outside(liar):
    with pytest.raises(OutsideFailed, match="no number"):
        read(liar, (200, {"Content-Length": "²", "Connection": "close"}, DATA))
    with pytest.raises(OutsideFailed, match="5 times in a row"):
        read(liar, (503, {"Retry-After": "²"}, b""))
    with pytest.raises(Unreachable, match=r"http://a+\.invalid cannot be reached"):
        read(liar, (302, {"Location": f"http://{'a' * 64}.invalid/x"}, b""))
    rows = [{"name": [], "targetCommit": COMMIT}, {"name": "a", "targetCommit": "../x"}, {"name": "a"}, "a"]
    for row in rows:
        liar.json("/api/models/lab/m/refs", {"branches": [row]})
        with pytest.raises(OutsideFailed, match="name or commit"):
            reader(liar).refs(REFERENCE)


def test_a_body_that_is_encoded_or_an_answer_that_is_none(liar):
    with pytest.raises(OutsideFailed, match="not asked for"):
        read(liar, (200, {"Content-Encoding": "gzip"}, DATA))
    with pytest.raises(OutsideFailed, match="not asked for"):
        read(liar, (204, {}, b""))


def test_a_cut_body_is_gone_on_with_and_given_up_without_progress(liar):
    def half(headers: dict[str, str]) -> Answer:
        start, stop = (int(one) for one in headers.get("range", f"bytes=0-{len(DATA) - 1}")[6:].split("-"))
        told = {"Content-Range": f"bytes {start}-{stop}/{len(DATA)}", "Connection": "close"}
        length = {"Content-Length": str(stop + 1 - start)}
        return 206 if "range" in headers else 200, told | length, DATA[start : start + 3000]

    assert read(liar, half) == DATA
    liar.seen.clear()
    with pytest.raises(OutsideFailed, match="5 times in a row"):
        read(liar, (503, {"Retry-After": "1"}, b""))
    assert len(liar.seen) == 5


def test_a_hub_that_is_not_there(liar):
    reader = HubReader.at("http://user:word@127.0.0.1:9/hub")
    with pytest.raises(Unreachable, match=r"^http://127\.0\.0\.1:9 cannot be reached: no connection") as caught:
        reader.resolve(REFERENCE)
    assert (caught.value.exit_code, "HF_ENDPOINT" in caught.value.remedy) == (3, True)


def test_a_store_that_is_not_there_is_named_itself(liar, impatient):
    with pytest.raises(Unreachable, match=r"^http://127\.0\.0\.1:9 cannot be reached"):
        read(liar, (302, {"Location": "http://127.0.0.1:9/store?signature=x"}, b""))


def test_a_body_has_a_least_pace_while_it_is_waited_for():
    pace = Pace(window_seconds=60, least_bytes=1000)
    pace.timed(lambda: b"x" * 999)
    pace.check()  # the window is not over
    pace.waited_seconds += 60
    with pytest.raises(Passing, match="less than 1000 bytes in 60 seconds"):
        pace.check()
    pace.timed(lambda: b"x")
    pace.check()  # enough came
    assert (pace.came_bytes, pace.waited_seconds) == (0, 0.0), "and the next window begins"


def test_no_entry_and_no_such_thing(liar):
    with pytest.raises(Refused, match="does not let you"):
        read(liar, (403, {}, b""))
    with pytest.raises(UnknownName, match="no such revision"):
        read(liar, (404, {"X-Error-Code": "RevisionNotFound"}, b""))


@pytest.mark.parametrize("value", [[], {"sha": "main"}, {"sha": 7}, {}, "x"])
def test_a_revision_that_is_no_commit(liar, value):
    liar.json("/api/models/lab/m/revision/v1.0.0", value)
    liar.json("/api/models/lab/m/refs", {})
    with pytest.raises(MalformedRecord):
        reader(liar).resolve(REFERENCE)


def test_a_commit_that_turns_into_another(liar):
    liar.json(f"/api/models/lab/m/revision/{COMMIT}", {"sha": OTHER})
    with pytest.raises(DoesNotHold, match="answers with bbbb"):
        reader(liar).resolve(REFERENCE.at(COMMIT))


def entry(path: str = "a", size: object = 1, **more: object) -> dict[str, object]:
    return {"type": "file", "path": path, "size": size, "oid": git_blob(b"x").hex, **more}


@pytest.mark.parametrize(
    "rows",
    [
        {"a": 1},
        ["a"],
        [entry("../../etc/passwd")],
        [entry("a/../b")],
        [entry(".git/hooks/post-checkout")],
        [entry(size=10**18, lfs={"oid": "0" * 64, "size": 10**18})],
        [entry(size=-1)],
        [entry(size="1")],
        [entry(), entry()],
        [entry(), entry("a/b")],
        [entry(oid="0" * 39)],
        [entry(lfs={"oid": "zz", "size": 1})],
        [entry(lfs="x")],
        [entry(type="symlink")],
    ],
)
def test_hostile_lists_are_refused(liar, rows):
    liar.json(f"/api/models/lab/m/tree/{COMMIT}", rows)
    with pytest.raises(Refused):
        reader(liar).listing(REFERENCE, COMMIT)


def test_pages_follow_one_another_on_the_hub_only(liar):
    address = f"/api/models/lab/m/tree/{COMMIT}"
    liar.json("/api/next", [entry("b"), {"type": "directory", "path": "c", "oid": "0" * 40}])
    liar.json(address, [entry()], Link=f'<{liar.endpoint}/api/next?cursor=x>; rel="next"')
    assert [file.path for file in reader(liar).listing(REFERENCE, COMMIT).files] == ["a", "b"]
    liar.json(address, [entry()], Link='<http://localhost/api/next>; rel="next"')
    with pytest.raises(MalformedRecord, match="not its own"):
        reader(liar).listing(REFERENCE, COMMIT)


def test_answers_without_end_are_cut_off(liar, monkeypatch):
    monkeypatch.setattr("registry.adapters.hub_read.hub._ANSWER_BYTES", 1000)
    liar.json("/api/models/lab/m/refs", ["x" * 2000])
    with pytest.raises(MalformedRecord, match="more than the 1000 bytes"):
        reader(liar).refs(REFERENCE)


def test_an_environment_that_is_offline_is_believed(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Refused, match="HF_HUB_OFFLINE"):
        HubReader.at("http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for address in ("hub.example", "http://[", "http://hub:99999"):
        with pytest.raises(Refused, match="no hub's address"):
            HubReader.at(address)
    assert HubReader.at("http://user:word@127.0.0.1:9").where == "http://127.0.0.1:9"
