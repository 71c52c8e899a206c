"""Recording tells every attempt once, believes no stage, and leaves nothing half done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from fakes.stores import MemoryOpenings, MemoryRecords, MemoryTables
from fakes.workshop import FakeAttempts, FakeDisk, FakeHost, FakeObserver, FakePipeline, FakeRepository

from registry.core import runlog
from registry.core.codec import record_bytes
from registry.core.digests import sha256, tree_digest
from registry.core.ledger import KINDS, Ledger
from registry.core.pipeline import StageSpec
from registry.core.records import Execution, Outcome
from registry.core.runlog import RunLog
from registry.errors import DoesNotHold, OutsideFailed, Refused, UnknownName
from registry.observing import Workshop
from registry.workflows.record import Recorded, Recorder

RECORDING = "reckon record {0} --begin && python -m train.make {0}; reckon record {0} --status $?"
LEG = StageSpec(
    name="leg/1",
    command=RECORDING.format("leg/1"),
    code=("train/make.py",),
    inputs=("artifacts/chart",),
    config={"leg": {"steps": 4}, "determinism": {"nproc": 2}},
    outputs=("artifacts/leg/1",),
)
CHART = replace(
    LEG, name="chart", command=RECORDING.format("chart"), inputs=(), config={"chart": 1}, outputs=("artifacts/chart",)
)


@dataclass
class World:
    """Everything that a recorder sees, in memory."""

    disk: FakeDisk = field(default_factory=FakeDisk)
    host: FakeHost = field(default_factory=FakeHost)
    records: MemoryRecords = field(default_factory=MemoryRecords)
    tables: MemoryTables = field(default_factory=MemoryTables)
    openings: MemoryOpenings = field(default_factory=MemoryOpenings)
    attempts: FakeAttempts = field(default_factory=FakeAttempts)
    pipeline: FakePipeline = field(default_factory=lambda: FakePipeline(specs={"chart": CHART, "leg/1": LEG}))

    def __post_init__(self) -> None:
        self.repository = FakeRepository(self.disk)
        self.disk.held = {"train/make.py": b"make()", "requirements.lock": b"x==1", "artifacts/chart/a.txt": b"1\n2\n"}

    @property
    def workshop(self) -> Workshop:
        return Workshop(
            pipeline=self.pipeline,
            repository=self.repository,
            disk=self.disk,
            observer=FakeObserver(self.disk),
            host=self.host,
        )

    @property
    def recorder(self) -> Recorder:
        return Recorder(
            workshop=self.workshop,
            records=self.records,
            tables=self.tables,
            attempts=self.attempts,
            openings=self.openings,
        )

    @property
    def ledger(self) -> Ledger:
        return Ledger.build(
            (kind, digest, self.records.get(kind, digest)) for kind in KINDS for digest in self.records.digests(kind)
        )

    @property
    def executions(self) -> list[Execution]:
        """Oldest first."""
        return [one for _, one in reversed(self.ledger.newest())]

    def begin(self, stage: str = "leg/1") -> None:
        self.recorder.begin(stage, {"text": "it arrives"})

    def record(self, stage: str = "leg/1", status: int = 0) -> Recorded:
        return self.recorder.record(stage, status, self.ledger)

    def told(self, *events: runlog.Event, stage: str = "leg/1", **changes: object) -> RunLog:
        """A run log of an attempt that began now, as the pipeline declares it."""
        spec = self.pipeline.specs[stage]
        determined = {**spec.config["determinism"], **self.host.numerics()} if "determinism" in spec.config else {}
        number = sum(map(len, self.attempts.logs.values()))
        started = runlog.Started(
            stage=stage,
            attempt=f"20261130t120000z-{number:08x}",
            time=self.host.now(),
            pid=1,
            host=self.host.name,
            argv=("-m", "train.make", stage),
            settings=dict(spec.config),
            determinism=determined,
            resumed=None,
            parent=None,
        )
        log = RunLog(events=(replace(started, **changes), *events), torn=False)
        self.attempts.logs.setdefault(stage, []).append(log)
        return log

    def noted(self, step: int) -> None:
        """The last attempt noted a step beside its log before it died."""
        logs = self.attempts.logs["leg/1"]
        logs[-1] = replace(logs[-1], noted=step)

    def makes(self, step: int = 4) -> None:
        """The outputs of a leg."""
        self.disk.held |= {
            "artifacts/leg/1/transcript.txt": b"1\n2\n",
            f"artifacts/leg/1/checkpoints/step-{step}/w.tensor": b"weights",
            f"artifacts/leg/1/checkpoints/step-{step}/checkpoint.json": b"{}",
        }

    def finished(self, **changes: object) -> runlog.Finished:
        done = runlog.Finished(time=self.host.now(), outcome=runlog.Outcome.COMPLETE, cause=None, step=4)
        return replace(done, **changes)

    def failed(self) -> runlog.Finished:
        cause = {"error": "NaN", "message": "the loss is NaN"}
        return self.finished(outcome=runlog.Outcome.FAILED, cause=cause, step=3)

    def run(self, **changes: object) -> Recorded:
        self.begin()
        self.told(self.finished(), **changes)
        self.makes()
        return self.record()


@pytest.fixture
def world() -> World:
    return World()


def test_a_complete_attempt_is_recorded_with_what_was_observed(world: World) -> None:
    recorded = world.run()
    [(digest, execution)] = recorded.executions
    product = recorded.product
    assert world.ledger.executions == {digest: execution}
    assert world.ledger.products == {execution.product: product}
    assert (execution.outcome, execution.cause, execution.steps) == (Outcome.COMPLETE, None, {"first": 0, "reached": 4})
    assert execution.hypothesis == {"text": "it arrives"}
    own, step = product.outputs
    assert (own.name, own.files, own.size_bytes, own.contents) == ("leg/1", 3, 13, {"lines": 2})
    assert (step.name, step.path) == ("leg/1@step-4", "artifacts/leg/1/checkpoints/step-4")
    assert world.tables.get_files(own.digest)
    assert [leaf.name for leaf in world.tables.get_leaves(world.tables.roots()[0])] == ["w"]
    assert own.digest == tree_digest(world.tables.get_files(own.digest))


def test_the_recipe_is_what_was_asked(world: World) -> None:
    world.run()
    [recipe] = world.ledger.recipes.values()
    assert recipe.command == ("python", "-m", "train.make", "leg/1")
    assert [(one.name, one.path) for one in recipe.inputs] == [("chart", "artifacts/chart")]
    assert recipe.inputs[0].digest == tree_digest(world.disk.files("artifacts/chart"))
    assert recipe.lock == sha256(b"x==1")
    assert recipe.determinism == {"nproc": 2, "machine": "x86_64", "jax": "1.0"}
    assert [one.path for one in recipe.source] == ["train/make.py"]


def test_a_second_making_is_a_second_witness(world: World) -> None:
    world.run()
    world.run()
    assert len(world.ledger.products) == 1
    [witnesses] = world.ledger.witnesses(next(iter(world.ledger.recipes)))
    assert len(witnesses.executions) == 2


def test_other_bytes_of_one_recipe_are_a_contradiction_and_both_stay(world: World) -> None:
    world.run()
    world.begin()
    world.told(world.finished())
    world.disk.held["artifacts/leg/1/transcript.txt"] = b"other\n"
    world.record()
    assert len(world.ledger.witnesses(next(iter(world.ledger.recipes)))) == 2


def test_recording_again_adds_nothing(world: World) -> None:
    world.run()
    before = {kind: dict(held) for kind, held in world.records.held.items()}
    with pytest.raises(DoesNotHold, match="left no complete run log that is not yet recorded"):
        world.record()
    assert world.records.held == before


def test_two_recorders_at_once_write_the_same(world: World) -> None:
    world.begin()
    world.told(world.finished())
    world.makes()
    empty = world.ledger
    first = world.recorder.record("leg/1", 0, empty)
    assert world.recorder.record("leg/1", 0, empty) == first
    assert len(world.executions) == 1


def test_an_attempt_that_died_is_told_by_the_next(world: World) -> None:
    world.begin()
    world.told(runlog.Checkpoint(step=2, location="artifacts/scratch/leg/1/step-2"))
    world.noted(3)
    world.begin()
    world.told(world.finished(), resumed={"attempt": "20261130t120000z-00000000", "step": 2})
    world.makes()
    world.record()
    died, done = world.executions
    assert (died.outcome, died.product) == (Outcome.INTERRUPTED, None)
    assert died.steps == {"first": 0, "reached": 3, "kept": 2}
    assert died.cause == {"error": "Interrupted", "message": "The process ended without a word."}
    assert (died.ended, died.hypothesis) == (None, {"text": "it arrives"})
    assert (done.outcome, done.steps) == (Outcome.COMPLETE, {"first": 2, "reached": 4})
    assert done.resumed == {"attempt": "20261130t120000z-00000000", "step": 2}


def test_a_failed_stage_is_recorded_with_its_cause(world: World) -> None:
    world.begin()
    world.told(world.failed())
    recorded = world.record(status=1)
    [execution] = world.executions
    assert recorded.product is None
    assert (execution.outcome, execution.product) == (Outcome.FAILED, None)
    assert execution.cause == {"error": "NaN", "message": "the loss is NaN"}
    assert execution.steps == {"first": 0, "reached": 3, "kept": 0}


def test_an_attempt_that_died_before_any_checkpoint_tells_how_far_it_came(world: World) -> None:
    world.begin()
    world.told()
    world.noted(3)
    world.record(status=137)
    [died] = world.executions
    assert (died.outcome, died.steps) == (Outcome.INTERRUPTED, {"first": 0, "reached": 3, "kept": 0})


def test_a_stage_that_never_began_leaves_nothing(world: World) -> None:
    world.begin()
    assert world.record(status=127).executions == ()
    assert world.executions == []


def test_a_complete_log_with_a_failed_status_is_no_witness(world: World) -> None:
    world.begin()
    world.told(world.finished())
    world.makes()
    world.record(status=1)
    [execution] = world.executions
    assert (execution.outcome, execution.product) == (Outcome.INTERRUPTED, None)
    assert execution.cause["error"] == "NotObserved"


def test_status_zero_without_a_complete_log_does_not_hold(world: World) -> None:
    world.begin()
    world.told(world.failed())
    with pytest.raises(DoesNotHold, match="left no complete run log"):
        world.record()
    assert [one.outcome for one in world.executions] == [Outcome.FAILED]


def test_a_running_attempt_is_left_alone(world: World) -> None:
    world.begin()
    world.attempts.running.add(world.told().started.attempt)
    assert world.record(status=1).executions == ()


def test_a_missing_output_does_not_hold(world: World) -> None:
    world.begin()
    world.told(world.finished())
    with pytest.raises(DoesNotHold, match="left no artifacts/leg/1"):
        world.record()
    assert world.executions == []


def test_garbage_in_an_output_is_not_recorded(world: World) -> None:
    world.begin()
    world.told(world.finished())
    world.makes()
    world.disk.held["artifacts/leg/1/transcript.txt"] = b"garbage"
    with pytest.raises(Refused, match="is garbage"):
        world.record()
    assert world.ledger.executions == {}


CHANGES = {
    "an input": lambda world: world.disk.held.update({"artifacts/chart/a.txt": b"3\n"}),
    "the code": lambda world: world.disk.held.update({"train/make.py": b"make(2)"}),
    "the lock": lambda world: world.disk.held.update({"requirements.lock": b"x==2"}),
    "a setting": lambda world: world.pipeline.specs.update({"leg/1": replace(LEG, config={**LEG.config, "leg": 5})}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_while_the_stage_ran_is_no_witness(world: World, what: str) -> None:
    world.begin()
    world.told(world.finished())
    world.makes()
    CHANGES[what](world)
    with pytest.raises(DoesNotHold, match="changed while it ran"):
        world.record()
    [execution] = world.executions
    assert (execution.outcome, execution.product, execution.cause["error"]) == (Outcome.FAILED, None, "NotAsDeclared")
    assert world.ledger.products == {}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"settings": {"leg": {"steps": 400}, "determinism": {"nproc": 2}}}, "other settings"),
        ({"settings": {}}, "other settings"),
        ({"determinism": {"nproc": 4, "machine": "x86_64", "jax": "1.0"}}, "other determinism settings.*nproc"),
        ({"determinism": {"nproc": 2, "machine": "x86_64", "jax": "2.0"}}, "other determinism settings.*jax"),
        ({"determinism": {}}, "jax, machine, nproc"),
    ],
)
def test_a_stage_that_ran_otherwise_than_declared_is_no_witness(world: World, changed: dict, words: str) -> None:
    with pytest.raises(DoesNotHold, match=words):
        world.run(**changed)
    assert [one.outcome for one in world.executions] == [Outcome.FAILED]


def test_what_the_process_set_beyond_the_recipe_is_no_fault(world: World) -> None:
    told = {"nproc": 2, "machine": "x86_64", "jax": "1.0", "hostname": "harbour"}
    assert world.run(determinism=told).product is not None


def test_a_dirty_tree_is_recorded_and_marked(world: World) -> None:
    world.repository.at = replace(world.repository.at, patch=sha256(b"patch"))
    [(_, execution)] = world.run().executions
    assert execution.revision.dirty


def test_an_attempt_is_told_with_the_commit_that_it_began_at(world: World) -> None:
    world.begin()
    world.told()
    world.repository.at = replace(world.repository.at, commit="e" * 40)
    world.begin()
    world.told(world.finished())
    world.makes()
    world.record()
    assert [one.revision.commit for one in world.executions] == ["c" * 40, "e" * 40]


def test_an_attempt_by_hand_is_none_of_ours(world: World) -> None:
    world.told(world.finished())
    world.makes()
    with pytest.raises(DoesNotHold, match="no complete run log"):
        world.record()
    assert not world.executions


def test_what_was_told_on_the_way_is_in_the_record(world: World) -> None:
    tracker = runlog.Tracker(
        system="wandb", state=runlog.TrackerState.FAILED, run_id=None, location=None, reason="no route"
    )
    incident = runlog.Incident(incident="loss-spike", first_step=2, last_step=3, text="from 3 to 9")
    environment = runlog.Environment(
        distributions=({"name": "jax", "version": "1.0", "record": None},),
        python="3.11.7",
        platform={"machine": "x86_64"},
        accelerator={"kind": "cpu"},
    )
    world.begin()
    world.told(
        environment, tracker, incident, world.finished(), parent={"name": "leg/0", "step": 2, "root": str(sha256(b""))}
    )
    world.makes()
    [(_, execution)] = world.record().executions
    [environment_record] = world.ledger.environments.items()
    assert execution.environment == environment_record[0]
    assert environment_record[1].distributions == environment.distributions
    assert execution.trackers[0]["reason"] == "no route"
    assert execution.incidents == ({"kind": "loss-spike", "first_step": 2, "last_step": 3, "text": "from 3 to 9"},)
    assert execution.steps == {"first": 2, "reached": 4}


def test_a_stage_that_is_not_declared_is_unknown(world: World) -> None:
    with pytest.raises(UnknownName, match="Did you mean leg/1"):
        world.recorder.begin("leg/2", None)


@pytest.mark.parametrize("gone", ["artifacts/chart/a.txt", "requirements.lock", "train/make.py"])
def test_a_stage_cannot_begin_without_what_it_needs(world: World, gone: str) -> None:
    del world.disk.held[gone]
    with pytest.raises(Refused, match="does not exist"):
        world.begin()
    assert world.openings.held == {}


class Failing:
    """A store whose n-th call to put fails, as on a full disk."""

    def __init__(self, wrapped: object, after: int) -> None:
        self._wrapped, self.left = wrapped, after

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapped, name)

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OutsideFailed("No space left on device.")

    def put(self, kind: str, data: bytes) -> object:
        self._spend()
        return self._wrapped.put(kind, data)

    def put_files(self, entries: object) -> object:
        self._spend()
        return self._wrapped.put_files(entries)

    def put_leaves(self, leaves: object) -> object:
        self._spend()
        return self._wrapped.put_leaves(leaves)


@pytest.mark.parametrize("store", ["records", "tables"])
@pytest.mark.parametrize("after", range(5))
def test_a_disk_that_fills_at_any_write_leaves_no_claim_and_can_be_tried_again(
    world: World, store: str, after: int
) -> None:
    world.begin()
    world.told(world.finished())
    world.makes()
    failing = Failing(getattr(world, store), after)
    try:
        replace(world.recorder, **{store: failing}).record("leg/1", 0, world.ledger)
    except OutsideFailed:
        assert world.ledger.executions == {}
    else:
        assert failing.left >= 0
        return
    recorded = world.record()
    assert len(world.ledger.executions) == 1
    for output in recorded.product.outputs:
        world.tables.get_files(output.digest)


def test_every_record_is_canonical(world: World) -> None:
    world.run()
    for execution in world.executions:
        assert Execution.from_json(execution.to_json()) == execution
        assert record_bytes(execution)
