"""Nothing in the checkout tells of one machine, one index or a secret, and no lock but the hashed one is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 4 * 2**20
FORBIDDEN = {
    "an index address": r"(?<!no-emit-)\bindex-ur[l]|--extra-index-ur[l]|[a-z]+://[^\s\"'<>]*/simple\b|pythonhosted\.[a-z]+",
    "a machine path": r"(?<![\w.>~/-])/(?:work|root|home|Users)/",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "a token": r"\b(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16})\b",
}
PLANTED = {
    "an index address": ["--extra-index" + "-url x", "https:/" + "/mirror.example/simple/click"],
    "a machine path": ["cd /" + "work/main", "'/" + "home/me/x'"],
    "a private key": ["-----BEGIN EC " + "PRIVATE KEY-----", "-----BEGIN " + "PRIVATE KEY-----"],
    "a token": ["hf_" + "a" * 34, "AKIA" + "A" * 16],
}


def found(kind: str, text: str) -> str | None:
    match = re.search(FORBIDDEN[kind], text)
    return match[0] if match else None


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_holds(kind, own_files):
    texts = {path: (ROOT / path).read_bytes() for path in own_files if (ROOT / path).stat().st_size <= LARGEST}
    assert len(texts) > 20
    hits = {str(path): hit for path, data in texts.items() if (hit := found(kind, data.decode("latin-1")))}
    assert not hits


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in PLANTED.items() for text in texts])
def test_it_would_be_seen(kind, text):
    assert found(kind, f"before {text} after")


def test_the_lock_is_hashed_and_alone(own_files):
    assert Path("requirements.lock") in own_files
    assert not [path for path in own_files if path.name in ("uv.lock", "poetry.lock", "Pipfile.lock")]
    pins = re.findall(
        r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", (ROOT / "requirements.lock").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(pins) > 100
    assert not [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin]


def test_the_lock_answers_every_direct_dependency(project):
    lock = (ROOT / "requirements.lock").read_text()
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    names = {re.split(r"[<>=!~\[ ]", line)[0].lower() for group in groups for line in group}
    assert not [name for name in names if not re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE)]
