"""Writing to a repository on a hub, through the hub's own client.

Large files go up first, a few at a time and counted as they leave; one commit then moves the branch from the stated
parent. Xet is switched off before the client is imported, since it leaves no way back to a hub without it. Refuses to
work while HF_HUB_OFFLINE is set; no token and no address with its signature is ever part of a message.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from registry.core.pointers import scrubbed
from registry.core.publications import Place
from registry.core.pushing import LARGEST_REGULAR, Access, Busy, Change, Overtaken
from registry.errors import OutsideFailed, ReckonError, Refused

PUBLIC: Final = "https://huggingface.co"
_FILES_A_TURN: Final = 16
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_TIMEOUT_SECONDS: Final = (15.0, 600.0)  # to connect, and of silence: a commit of many files takes its time
_WRITES: Final = "repo.write"
_SETTINGS: Final = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


class HubRepository:
    """A repository of models at ``place``. ``token`` is the client's own (HF_TOKEN, HF_TOKEN_PATH) unless given."""

    def __init__(self, place: Place, token: str | None = None) -> None:
        self._place = place
        self._api = _client(place.endpoint, token)

    @property
    def place(self) -> Place:
        """The hub's address and the repository."""
        return self._place

    def access(self) -> Access:
        """Who the token speaks for. A fine-grained token writes if its scope names the repository or its owner."""
        with self._asking("say who you are"):
            told = self._api.whoami()
        token = _mapping(_mapping(told.get("auth")).get("accessToken"))
        role = str(token.get("role", ""))
        fine = _mapping(token.get("fineGrained"))
        writes = role == "write" or (role == "fineGrained" and _scoped(fine, self._place.repository))
        return Access(user=str(told.get("name", "")), role=role, writes=writes)

    def create(self, *, private: bool) -> None:
        """Make the repository, or leave it as it is."""
        with self._asking("make the repository"):
            self._api.create_repo(self._place.repository, private=private, exist_ok=True)

    def commit(self, change: Change, advance: Callable[[int], None]) -> str:
        """Upload and commit. A file that changes while it is read is found by whoever looks at the commit."""
        from huggingface_hub import CommitOperationCopy, CommitOperationDelete

        with self._asking("take the files"):
            added = self._uploaded(change, advance)
            copies = [CommitOperationCopy(path, path, change.source) for path in change.copied]
            gone = [CommitOperationDelete(path, is_folder=False) for path in change.removed]
            done = self._api.create_commit(
                self._place.repository,
                [*gone, *added, *copies],
                commit_message=change.title,
                revision=change.branch,
                parent_commit=change.parent,
            )
        return str(done.oid)

    def branch(self, name: str, commit: str) -> None:
        """Make a branch."""
        with self._asking(f"make the branch {name}"):
            self._api.create_branch(self._place.repository, branch=name, revision=commit)

    def tag(self, name: str, commit: str, message: str) -> None:
        """Make a tag."""
        with self._asking(f"make the tag {name}"):
            self._api.create_tag(self._place.repository, tag=name, revision=commit, tag_message=message)

    def drop(self, branch: str) -> None:
        """Remove a branch, if it is there."""
        try:
            with self._asking(f"remove the branch {branch}"):
                self._api.delete_branch(self._place.repository, branch=branch)
        except (_Missing, Overtaken):
            return

    def _uploaded(self, change: Change, advance: Callable[[int], None]) -> list[Any]:
        """An addition for every file; the bytes of large ones have left when it returns."""
        from huggingface_hub import CommitOperationAdd

        done = []
        for some in _turns(sorted(change.added), _FILES_A_TURN):
            with ExitStack() as open_files:
                turn = []
                for path in some:
                    added = change.added[path]
                    source = added if isinstance(added, bytes) else Path(added)
                    counted = _counted(source, open_files, advance)
                    turn.append(CommitOperationAdd(path, source if counted is None else counted))
                    if counted is not None:
                        counted.counts = True  # the client has hashed it; what it reads now, it sends
                self._api.preupload_lfs_files(
                    self._place.repository, turn, revision=change.branch, free_memory=False, num_threads=4
                )
            for one in turn:
                content = one.path_or_fileobj
                advance(content.rest if isinstance(content, _Counted) else one.upload_info.size)
            done += turn
        return done

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Turns what the client raises into our errors."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            raise self._failure(what, error) from error

    def _failure(self, what: str, error: Exception) -> Exception:
        """The error for a person; the very error for what went wrong on this disk."""
        import requests
        from huggingface_hub.errors import LocalTokenNotFoundError
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

        causes = list(_causes(error))
        if isinstance(error, LocalTokenNotFoundError):
            remedy = "Set HF_TOKEN or HF_TOKEN_PATH, or run 'hf auth login'."
            return Refused(f"There is no token for the hub at {self._place.endpoint}.", remedy=remedy)
        if "Insufficient Storage" in str(error) or "has no room" in str(error):
            return self._full(what)
        if type(error) is ValueError:  # what the client says of our files tells more than the status behind it
            return OutsideFailed(
                f"The hub did not {what}: {scrubbed(str(error), self._secrets())}",
                remedy="Mend what it names, build the release again if a file has to change, and push again.",
            )
        answer = next((one.response for one in causes if getattr(one, "response", None) is not None), None)
        if answer is not None:
            return self._refusal(what, answer)
        if any(isinstance(one, NewConnectionError | ConnectTimeoutError) for one in causes):
            told = f"The hub at {self._place.endpoint} cannot be reached, so it did not {what}."
            return Busy(f"{told} Check the network, and that HF_ENDPOINT is the hub that you mean.")
        if any(isinstance(one, requests.RequestException) for one in causes):
            return Busy(f"The hub at {self._place.endpoint} did not {what}: the connection failed.")
        if isinstance(error, OSError):
            return error
        return OutsideFailed(f"The hub did not {what}: {scrubbed(str(error), self._secrets())}")

    def _refusal(self, what: str, answer: Any) -> ReckonError:
        status = int(answer.status_code)
        said = scrubbed(str(answer.headers.get("X-Error-Message") or answer.reason or ""), self._secrets())
        told = f"The hub at {self._place.endpoint} did not {what} ({status}{f': {said}' if said else ''})."
        if status in _BUSY:
            return Busy(told, wait_seconds=_seconds(str(answer.headers.get("Retry-After", ""))))
        if status in (409, 412) or answer.headers.get("X-Error-Code") == "RevisionNotFound":
            return Overtaken(told, remedy="Somebody else pushed meanwhile. Run the same command again.")
        if status in (401, 403):
            return Refused(told, remedy="Set HF_TOKEN or HF_TOKEN_PATH to a token that may write to the repository.")
        if status == 507:
            return self._full(what)
        return (_Missing if status == 404 else OutsideFailed)(told, remedy="Is the repository's name right?")

    def _full(self, what: str) -> OutsideFailed:
        return OutsideFailed(
            f"The hub at {self._place.endpoint} did not {what}: its disk is full.",
            remedy="Make room there, then run the same command again; what arrived stays.",
        )

    def _secrets(self) -> Sequence[str]:
        token = self._api.token
        return [token] if isinstance(token, str) else [os.environ.get("HF_TOKEN", "")]


class _Missing(OutsideFailed):
    """The hub does not know what we speak of."""


class _Counted(io.BufferedReader):
    """A file that tells how far it was sent. What is sent again after a cut counts once."""

    def __init__(self, path: Path, advance: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path))
        self._advance = advance
        self._told = 0
        self._size = path.stat().st_size
        self.counts = False

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and tell."""
        data = super().read(size)
        if self.counts:
            more = self.tell() - self._told
            self._tell(more)
        return data

    @property
    def rest(self) -> int:
        """What was not told of: all of a file that the hub had."""
        return self._size - self._told

    def _tell(self, more: int) -> None:
        if more > 0:
            self._told += more
            self._advance(more)


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, else the public one."""
    return (os.environ.get("HF_ENDPOINT") or PUBLIC).rstrip("/")


def _client(address: str, token: str | None) -> Any:
    """The hub's client, with patience that ends. Raises ``Refused`` offline."""
    for name, value in _SETTINGS.items():
        os.environ[name] = value
    os.environ.setdefault("HF_ENDPOINT", address)
    from huggingface_hub import HfApi, configure_http_backend, constants

    if constants.HF_HUB_OFFLINE:
        raise Refused("HF_HUB_OFFLINE is set, so nothing is published.", remedy="Unset it, then run the command again.")
    constants.HF_HUB_DISABLE_XET = True  # where somebody imported the client before us
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    configure_http_backend(_session)
    return HfApi(endpoint=address, token=token, library_name="deadreckon")


def _session() -> Any:
    """A session of the client's own kind, which does not wait for ever."""
    from huggingface_hub import constants
    from huggingface_hub.utils._http import OfflineAdapter, UniqueRequestIdAdapter
    from requests import Session

    class Bounded(UniqueRequestIdAdapter):
        def send(self, request: Any, *arguments: Any, **named: Any) -> Any:
            return super().send(request, *arguments, **named | {"timeout": named.get("timeout") or _TIMEOUT_SECONDS})

    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, OfflineAdapter() if constants.HF_HUB_OFFLINE else Bounded())
    return session


def _counted(source: Path | bytes, open_files: ExitStack, advance: Callable[[int], None]) -> _Counted | None:
    """A large file, opened so that it is counted; None for what travels inside the commit."""
    if isinstance(source, bytes) or source.stat().st_size <= LARGEST_REGULAR:
        return None
    return open_files.enter_context(_Counted(source, advance))


def _causes(error: BaseException | None) -> Iterator[Any]:
    seen = 0
    while error is not None and seen < 8:
        yield error
        error, seen = error.__cause__ or error.__context__, seen + 1


def _scoped(fine: Mapping[str, Any], repository: str) -> bool:
    owner = repository.partition("/")[0]
    for scope in fine.get("scoped") or ():
        entity, rights = _mapping(_mapping(scope).get("entity")), _mapping(scope).get("permissions") or ()
        if entity.get("name") in (repository, owner) and _WRITES in rights:
            return True
    return _WRITES in (fine.get("global") or ())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0.0


def _turns(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
