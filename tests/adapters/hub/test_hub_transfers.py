"""Large files on their way up: in one piece and in parts, cut and gone on with, accepted only when they are right."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import BadRequestError, HfHubHTTPError
from support.hub import PART_BYTES


def payload(seed: int, size: int) -> bytes:
    return hashlib.shake_256(b"%d" % seed).digest(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def made() -> list[str]:
    """The repository, once it is made."""
    return []


@pytest.fixture
def repo(hub, made) -> str:
    """A repository, one for all tests here: each sends bytes of its own."""
    if not made:
        made.append(hub.new_repo())
    return made[0]


def batch(
    hub, repo: str, *objects: tuple[str, int], transfers=("basic", "multipart"), operation="upload"
) -> list[dict]:
    body = {
        "operation": operation,
        "transfers": list(transfers),
        "objects": [{"oid": oid, "size": size} for oid, size in objects],
        "hash_algo": "sha256",
    }
    answer = hub.request(
        "POST", f"/{repo}.git/info/lfs/objects/batch", json.dumps(body).encode(), authorization=f"Bearer {hub.token}"
    )
    assert answer.status == 200, answer.body
    return json.loads(answer.body)["objects"]


def place(hub, href: str) -> str:
    assert href.startswith(hub.endpoint)
    return href.removeprefix(hub.endpoint)


def stored(hub, data: bytes) -> bool:
    path = hub.object_path(digest(data))
    return path.exists() and path.read_bytes() == data


def leftovers(hub) -> list[str]:
    return [path.name for path in (hub.root / "incoming").iterdir() if path.suffix == ".tmp"]


def test_in_one_piece(hub, repo):
    data = payload(1, PART_BYTES)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    puts = [one for one in hub.faults.seen("/lfs/") if one["method"] == "PUT"]
    assert [(one["received_bytes"], one["status"]) for one in puts] == [(len(data), 200)]
    assert stored(hub, data)
    assert not leftovers(hub)


def test_in_parts(hub, repo):
    data = payload(2, 5 * PART_BYTES + 1)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    assert [one["received_bytes"] for one in hub.faults.seen("/lfs/parts/")] == [PART_BYTES] * 5 + [1]
    assert len(hub.faults.seen("/lfs/complete/")) == 1
    assert stored(hub, data)
    assert not list((hub.root / "incoming").glob("*.parts"))


def test_what_is_here_is_not_sent_again(hub, repo):
    data = payload(3, 1000)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    other = hub.new_repo()
    hub.faults.clear()
    hub.api().upload_file(repo_id=other, path_in_repo="y.bin", path_or_fileobj=data)
    assert not [one for one in hub.faults.seen() if one["method"] == "PUT"]
    assert Path(hub.api().hf_hub_download(other, "y.bin")).read_bytes() == data


def test_a_cut_part_is_the_only_one_sent_again(hub, repo, impatient):
    """The client tries the part again by itself; the parts before it stay."""
    data = payload(4, 4 * PART_BYTES)
    hub.faults.set(act="drop_request", method="PUT", pattern="/lfs/parts/.*/3$", after_bytes=1000)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    sent = [one["address"].rpartition("/")[2] for one in hub.faults.seen("/lfs/parts/")]
    assert sent == ["1", "2", "3", "3", "4"]
    assert stored(hub, data)


@pytest.mark.slow
def test_parts_outlive_the_server_and_their_tags_can_be_asked(hub_process):
    hub = hub_process()
    repo, data = hub.new_repo(), payload(5, 3 * PART_BYTES + 7)
    (answer,) = batch(hub, repo, (digest(data), len(data)))
    upload = answer["actions"]["upload"]
    cut = int(upload["header"]["chunk_size"])
    tags = []
    for number in (1, 2):
        part = data[(number - 1) * cut : number * cut]
        put = hub.request("PUT", place(hub, upload["header"][str(number)]), part)
        assert put.headers["ETag"] == f'"{digest(part)}"'
        tags.append(put.headers["ETag"])
    hub.kill()
    hub.start()
    (answer,) = batch(hub, repo, (digest(data), len(data)))
    hrefs = answer["actions"]["upload"]["header"]
    here = [hub.request("HEAD", place(hub, hrefs[str(number)])) for number in (1, 2, 3, 4)]
    assert [one.headers["ETag"] for one in here] == [*tags, None, None]
    assert [one.status for one in here] == [200, 200, 404, 404]
    for number in (3, 4):
        put = hub.request("PUT", place(hub, hrefs[str(number)]), data[(number - 1) * cut : number * cut])
        tags += [put.headers["ETag"]]
    parts = [{"partNumber": number, "etag": tag} for number, tag in enumerate(tags, start=1)]
    done = hub.request("POST", place(hub, upload["href"]), json.dumps({"oid": digest(data), "parts": parts}).encode())
    assert done.status == 200, done.body  # the address of before the kill still holds
    assert stored(hub, data)


def test_one_piece_goes_on_where_it_was_cut(hub, repo):
    data = payload(6, PART_BYTES)
    (answer,) = batch(hub, repo, (digest(data), len(data)), transfers=["basic"])
    href = place(hub, answer["actions"]["upload"]["href"])
    hub.faults.set(act="drop_request", method="PUT", after_bytes=70_000)
    with pytest.raises(ConnectionError):
        hub.request("PUT", href, data)
    deadline = time.monotonic() + 10
    while (arrived := int(hub.request("HEAD", href).headers["Upload-Offset"])) == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert 0 < arrived < len(data)
    assert not stored(hub, data)
    wrong = hub.request("PUT", href, data[1:], content_range=f"bytes 1-{len(data) - 1}/{len(data)}")
    assert (wrong.status, wrong.headers["Upload-Offset"]) == (409, str(arrived))
    rest = hub.request("PUT", href, data[arrived:], content_range=f"bytes {arrived}-{len(data) - 1}/{len(data)}")
    assert rest.status == 200, rest.body
    assert stored(hub, data)
    assert hub.request("HEAD", href).headers["Upload-Offset"] == str(len(data))


def test_a_wrong_piece_is_refused_and_not_kept(hub, repo):
    data = payload(7, 1000)
    (answer,) = batch(hub, repo, (digest(data), len(data)))
    href = place(hub, answer["actions"]["upload"]["href"])
    flipped = bytes([data[0] ^ 1]) + data[1:]
    assert hub.request("PUT", href, flipped).status == 422
    assert hub.request("PUT", href, data[:-1]).status == 400
    assert hub.request("PUT", href, data + b"x").status == 400
    assert hub.request("HEAD", href).headers["Upload-Offset"] == "0"
    assert not stored(hub, data)
    assert not stored(hub, flipped)
    assert not leftovers(hub)


def test_a_wrong_part_spoils_the_whole_and_a_new_try_succeeds(hub, repo):
    data = payload(8, 2 * PART_BYTES)
    (answer,) = batch(hub, repo, (digest(data), len(data)))
    header, href = answer["actions"]["upload"]["header"], place(hub, answer["actions"]["upload"]["href"])
    pieces = [data[:PART_BYTES], bytes(PART_BYTES)]
    parts = []
    for number, piece in enumerate(pieces, start=1):
        tag = hub.request("PUT", place(hub, header[str(number)]), piece).headers["ETag"]
        parts.append({"partNumber": number, "etag": tag})
    short = hub.request("PUT", place(hub, header["1"]), b"short")
    assert short.status == 422
    for wrong in ([], parts[:1], [parts[1], parts[0]], [parts[0], {"partNumber": 2, "etag": "../../etc"}]):
        assert hub.request("POST", href, json.dumps({"parts": wrong}).encode()).status == 400
    assert hub.request("POST", href, json.dumps({"parts": parts}).encode()).status == 422
    assert not stored(hub, data)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    assert stored(hub, data)


def test_two_senders_of_different_parts_cannot_make_a_wrong_object(hub, repo):
    """Both name the same object; only what hashes to the name comes to be."""
    data = payload(9, 2 * PART_BYTES)
    (answer,) = batch(hub, repo, (digest(data), len(data)))
    header, href = answer["actions"]["upload"]["header"], place(hub, answer["actions"]["upload"]["href"])
    tags = {}
    for sender, piece in {"good": data[PART_BYTES:], "bad": bytes(PART_BYTES)}.items():
        first = hub.request("PUT", place(hub, header["1"]), data[:PART_BYTES]).headers["ETag"]
        tags[sender] = [first, hub.request("PUT", place(hub, header["2"]), piece).headers["ETag"]]
    parts = [{"partNumber": number, "etag": tag} for number, tag in enumerate(tags["good"], start=1)]
    assert hub.request("POST", href, json.dumps({"parts": parts}).encode()).status == 200
    assert stored(hub, data)


def test_a_commit_is_refused_when_its_object_never_arrived(hub, repo):
    api, before = hub.api(), hub.api().model_info(repo).sha
    hub.faults.set(  # a store that says yes and keeps nothing
        {"act": "status", "status": 200, "method": "PUT", "times": 0},
        {"act": "status", "status": 200, "method": "POST", "pattern": "/verify$", "times": 0},
    )
    with pytest.raises(BadRequestError, match="never uploaded"):
        api.upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=payload(10, 1000))
    assert api.model_info(repo).sha == before


@pytest.mark.slow
def test_a_commit_is_refused_when_its_object_rotted(hub_process):
    hub = hub_process()
    repo, data = hub.new_repo(), payload(11, 1000)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    path = hub.object_path(digest(data))
    path.chmod(0o644)
    path.write_bytes(b"rot" + data[3:])
    with pytest.raises(BadRequestError, match="damaged"):
        hub.api().upload_file(repo_id=repo, path_in_repo="y.bin", path_or_fileobj=data)
    hub.api().upload_file(repo_id=repo, path_in_repo="y.bin", path_or_fileobj=data)  # now it is sent again
    assert path.read_bytes() == data


def test_a_pointer_cannot_be_smuggled_in_as_a_text(hub, repo):
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n"
    with pytest.raises(BadRequestError, match="never uploaded"):
        hub.api().upload_file(repo_id=repo, path_in_repo="innocent.txt", path_or_fileobj=text.encode())


def test_batch_answers_for_each_object(hub, repo):
    data = payload(12, 1000)
    hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
    here, other, new = batch(hub, repo, (digest(data), 1000), (digest(data), 999), ("1" * 64, 5))
    assert "actions" not in here
    assert "error" not in here
    assert other["error"]["code"] == 422
    assert set(new["actions"]) == {"upload", "verify"}
    down, absent = batch(hub, repo, (digest(data), 1000), ("2" * 64, 3), operation="download")
    assert hub.request("GET", place(hub, down["actions"]["download"]["href"])).body == data
    assert absent["error"]["code"] == 404


@pytest.mark.parametrize(
    "objects",
    [
        "text",
        ["text"],
        [{}],
        [{"oid": "../../x", "size": 1}],
        [{"oid": "A" * 64, "size": 1}],
        [{"oid": "0" * 64, "size": -1}],
        [{"oid": "0" * 64, "size": True}],
        [{"oid": "0" * 64, "size": 10**15}],
        [{"oid": "0" * 64, "size": 1}] * 1001,
    ],
)
def test_a_malformed_batch_is_refused(hub, repo, objects):
    body = json.dumps({"operation": "upload", "objects": objects, "transfers": 7}).encode()
    answer = hub.request("POST", f"/{repo}.git/info/lfs/objects/batch", body, authorization=f"Bearer {hub.token}")
    assert answer.status == 400


def test_addresses_of_uploads_work_only_as_signed(hub, repo):
    oid = digest(b"x")
    (answer,) = batch(hub, repo, (oid, 1))
    href = place(hub, answer["actions"]["upload"]["href"])
    path, _, query = href.partition("?")
    for target in (path, f"/lfs/objects/{oid}/2?{query}", f"/lfs/content/{oid}?{query}", href[:-1] + "x"):
        assert hub.request("PUT" if "objects" in target else "GET", target, b"x").status == 403
    fields = dict(field.split("=") for field in query.split("&"))
    later = f"{path}?expires={int(fields['expires']) + 1}&signature={fields['signature']}"
    assert hub.request("PUT", later, b"x").status == 403
    assert hub.request("PUT", href, b"x").status == 200


def test_a_pusher_that_shares_shards_with_another_does_not_disturb_it(hub):
    data = payload(13, 6 * PART_BYTES)
    repos = [hub.new_repo() for _ in range(4)]
    failed = []

    def push(repo: str) -> None:
        try:
            hub.api().upload_file(repo_id=repo, path_in_repo="x.bin", path_or_fileobj=data)
        except HfHubHTTPError as error:
            failed.append(error)

    threads = [threading.Thread(target=push, args=(repo,)) for repo in repos]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(hub, data)
    assert not failed


@pytest.mark.slow
def test_memory_stays_small_however_large_the_file(hub_process):
    """Four uploads of 32 MB at once, and as many downloads: the server holds blocks, not files."""
    hub = hub_process(part_bytes=2**26)
    repo = hub.new_repo()
    datas = [payload(20, 1000) * 32_000 + b"%d" % number for number in range(4)]
    before = memory(hub.pid)
    hub.api().create_commit(
        repo,
        [CommitOperationAdd(path_in_repo=f"{number}.bin", path_or_fileobj=data) for number, data in enumerate(datas)],
        commit_message="Large",
    )
    for number, data in enumerate(datas):
        assert hub.request("GET", f"/{repo}/resolve/main/{number}.bin", host="hub.example").body == data
    assert peak(hub.pid) - before < 24 * 2**20


def memory(pid: int) -> int:
    return status_kib(pid, "VmRSS") * 1024


def peak(pid: int) -> int:
    return status_kib(pid, "VmHWM") * 1024


def status_kib(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
