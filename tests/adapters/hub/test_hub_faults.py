"""The faults do what their names say, the unmodified client suffers them, and they are out of the command's reach."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests
from huggingface_hub.errors import HfHubHTTPError
from urllib3.exceptions import ReadTimeoutError

DATA = hashlib.shake_256(b"faults").digest(300_000)


@pytest.fixture
def repo(hub) -> str:
    """A repository with a large file, and nothing seen yet."""
    name = hub.new_repo()
    hub.api().upload_file(repo_id=name, path_in_repo="x.bin", path_or_fileobj=DATA)
    hub.faults.clear()
    return name


def download(hub, repo: str) -> bytes:
    return Path(hub.api().hf_hub_download(repo, "x.bin", force_download=True)).read_bytes()


def test_nothing_happens_without_a_fault(hub, repo):
    assert download(hub, repo) == DATA
    (content,) = hub.faults.seen("/lfs/content/")
    assert (content["method"], content["status"], content["sent_bytes"]) == ("GET", 200, len(DATA))


def test_a_flipped_bit_passes_the_client(hub, repo):
    """Which is why every pull of ours ends in a verification of ours."""
    hub.faults.set(act="flip", pattern="/lfs/content/", after_bytes=200_000)
    came = download(hub, repo)
    assert [at for at in range(len(DATA)) if came[at] != DATA[at]] == [200_000]
    assert download(hub, repo) == DATA  # once only


def test_a_cut_download_is_begun_anew(hub, repo):
    """This client goes on only after silence, within one call; see the test of the stalled peer."""
    hub.faults.set(act="drop_answer", method="GET", pattern="/lfs/content/", after_bytes=100_000)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        hub.api().hf_hub_download(repo, "x.bin")
    assert Path(hub.api().hf_hub_download(repo, "x.bin")).read_bytes() == DATA
    first, second = hub.faults.seen("/lfs/content/")
    assert first["sent_bytes"] == 100_000
    assert (second["span"], second["sent_bytes"]) == ("", len(DATA))


@pytest.mark.parametrize("status", [500, 503])
def test_a_status_for_the_nth_request(hub, repo, impatient, status):
    hub.faults.set(act="status", status=status, pattern="/resolve/", method="HEAD", skip=1)
    assert download(hub, repo) == DATA
    assert download(hub, repo) == DATA
    assert [one["status"] for one in hub.faults.seen("/resolve/")] == [302, status, 302]


def test_too_many_requests(hub, repo):
    hub.faults.set(act="status", status=429, headers={"Retry-After": "1"}, pattern="/revision/")
    with pytest.raises(HfHubHTTPError) as refused:
        hub.api().model_info(repo, revision="main")
    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["Retry-After"] == "1"
    assert hub.api().model_info(repo, revision="main").sha


def test_the_client_gives_up_a_stalled_peer_and_goes_on(hub, repo, impatient, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.5)
    hub.faults.set(act="stall", method="GET", pattern="/lfs/content/", after_bytes=100_000, seconds=30)
    assert download(hub, repo) == DATA
    first, second = hub.faults.seen("/lfs/content/")
    assert first["sent_bytes"] == 100_000
    assert (second["span"], second["sent_bytes"]) == ("bytes=100000-", len(DATA) - 100_000)


@pytest.mark.timeout(60)
def test_a_stalled_peer(hub, repo):
    hub.faults.set(act="stall", method="GET", pattern="/lfs/content/", after_bytes=50_000, seconds=120)
    link = requests.head(f"{hub.endpoint}/{repo}/resolve/main/x.bin", timeout=5).headers["Location"]
    answer = requests.get(link, stream=True, timeout=0.5)
    assert answer.raw.read(50_000) == DATA[:50_000]
    with pytest.raises(ReadTimeoutError):
        answer.raw.read(1)


def test_a_peer_that_drips(hub, repo):
    hub.faults.set(act="drip", method="GET", pattern="/lfs/content/", after_bytes=50_000, seconds=0.05)
    link = requests.head(f"{hub.endpoint}/{repo}/resolve/main/x.bin", timeout=5).headers["Location"]
    answer = requests.get(link, stream=True, timeout=5)
    assert answer.raw.read(50_000) == DATA[:50_000]
    assert [answer.raw.read1(1000) for _ in range(3)] == [DATA[at : at + 1] for at in range(50_000, 50_003)]
    answer.close()


def test_a_tag_that_moves_between_two_requests(hub, repo):
    api = hub.api()
    api.create_tag(repo, tag="v1.0.0")
    before = api.model_info(repo, revision="v1.0.0").sha
    after = api.upload_file(repo_id=repo, path_in_repo="y", path_or_fileobj=b"y").oid
    hub.faults.set(act="move_ref", repository=repo, ref="refs/tags/v1.0.0", commit=after, pattern="/tree/")
    assert api.model_info(repo, revision="v1.0.0").sha == before
    assert "y" in [one.path for one in api.list_repo_tree(repo, revision="v1.0.0")]
    assert api.model_info(repo, revision="v1.0.0").sha == after


@pytest.mark.slow
def test_a_server_that_dies_comes_back(hub_process):
    hub = hub_process()
    repo = hub.new_repo()
    before = hub.api().model_info(repo).sha
    hub.faults.set(act="kill_answer", method="POST", pattern="/commit/")
    with pytest.raises(requests.ConnectionError):
        hub.api().upload_file(repo_id=repo, path_in_repo="x", path_or_fileobj=b"x")
    assert hub.end() == -9
    hub.start()
    assert hub.api().list_repo_commits(repo)[1].commit_id == before  # the commit was made, the answer was lost


def test_no_command_leads_to_faults():
    """Only tests name the module, and the address that sets faults is theirs."""
    root = Path(__file__).resolve().parents[3]
    sources = {path: path.read_text() for path in (root / "registry").rglob("*.py")}
    assert len(sources) > 50
    assert not [path for path, text in sources.items() if "faults" in text and path.parent.name == "cli"]
    assert not [path for path, text in sources.items() if "import" in text and "hub_server.faults" in text]
    assert not [path for path, text in sources.items() if "/_test" in text]
