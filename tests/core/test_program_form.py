"""The canonical form of a program: what changes a fingerprint, what does not, and what is refused."""

from __future__ import annotations

import time

import pytest

from registry.core.mlir import parse
from registry.core.program import Lowered, Program, Programs, parse_mesh
from registry.core.programdiff import compare
from registry.core.writing import FORM, canonical_text, fingerprint, read_program
from registry.errors import MalformedRecord, Refused

TWICE = """\
#loc1 = loc("/somewhere/else/train/model.py":12:3 to :9)
#loc2 = loc("Norm/mul"(#loc1))
"builtin.module"() <{sym_name = "jit_step"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["data"=2]>, sym_name = "mesh"}> : () -> () loc(#loc1)
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}, {}], function_type = (tensor<4xf32>, \
tensor<4xf32>) -> tensor<4xf32>, res_attrs = [{jax.result_info = "result[0]"}], sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("x"), %arg1: tensor<4xf32> loc("y")):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e-05> : tensor<4xf32>}> : () -> tensor<4xf32> loc(#loc2)
    %1 = "func.call"(%arg0, %0) <{callee = @add_epsilon}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
    %2 = "stablehlo.multiply"(%1, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
    %3 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc2)
    %4 = "stablehlo.reduce"(%2, %3) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg2: tensor<f32> loc("a"), %arg3: tensor<f32> loc("b")):
      %6 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc2)
      "stablehlo.return"(%6) : (tensor<f32>) -> () loc(#loc2)
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc2)
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> \
: (tensor<f32>) -> tensor<4xf32> loc(#loc2)
    "func.return"(%5) : (tensor<4xf32>) -> () loc(#loc1)
  }) : () -> () loc(#loc1)
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, \
res_attrs = [{}], sym_name = "add_epsilon", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<4xf32> loc(unknown), %arg5: tensor<4xf32> loc(unknown)):
    %7 = "stablehlo.add"(%arg4, %arg5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
    "func.return"(%7) : (tensor<4xf32>) -> () loc(#loc1)
  }) : () -> () loc(#loc1)
}) {mhlo.num_partitions = 2 : i32} : () -> () loc(#loc1)
"""
CALL = '"func.call"(%arg0, %0) <{callee = @add_epsilon}>'
DEAD = '    %9 = "stablehlo.negate"(%arg1) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc2)\n    %2 ='


def digest(text: str) -> str:
    return str(fingerprint(canonical_text(read_program(text))))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add_epsilon", "softened"),
        ('sym_name = "jit_step"', 'sym_name = "jit_train"'),
        ("/somewhere/else/train/model.py", "/here/train/layers.py"),
        ("%1 ", "%first "),
        ('"mesh"', '"cluster"'),
        ('"result[0]"', '"result[1].loss"'),
        (CALL, '"stablehlo.add"(%arg0, %0)'),
        ("    %2 =", DEAD),
    ],
    ids=["function", "module", "place", "value", "mesh's name", "result's name", "no function", "dead code"],
)
def test_what_computes_the_same_is_the_same_program(before: str, after: str) -> None:
    changed = TWICE.replace(before, after)
    if before == "%1 ":
        changed = changed.replace("(%1,", "(%first,")
    if before == '"mesh"':
        changed = changed.replace("@mesh", "@cluster")
    assert changed != TWICE
    assert digest(changed) == digest(TWICE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1.000000e-05", "1.000000e-06"),
        ('"stablehlo.multiply"(%1, %arg1)', '"stablehlo.multiply"(%arg1, %1)'),
        ("array<i64: 0>", "array<i64: 1>"),
        ('%6 = "stablehlo.add"', '%6 = "stablehlo.maximum"'),
        ('["data"=2]', '["data"=4]'),
        ('[{"data"}]', "[{}]"),
        ("num_partitions = 2", "num_partitions = 4"),
        ("f32", "bf16"),
    ],
    ids=["epsilon", "operands", "attribute", "reduction", "mesh", "sharding", "partitions", "precision"],
)
def test_what_computes_otherwise_is_another_program(before: str, after: str) -> None:
    changed = TWICE.replace(before, after)
    assert changed != TWICE
    assert digest(changed) != digest(TWICE)


def test_a_difference_begins_where_it_begins() -> None:
    diff = compare(read_program(TWICE), read_program(TWICE.replace("1.000000e-05", "1.000000e-06")))
    [removed], [added] = diff.removed, diff.added
    assert "stablehlo.constant {value = dense<1.000000e-05>" in removed.operation
    assert "dense<1.000000e-06>" in added.operation
    assert added.places == ("Norm/mul (train/model.py:12)",)
    assert diff.gone == {
        "stablehlo.add": 1,
        "stablehlo.broadcast_in_dim": 1,
        "stablehlo.constant": 1,
        "stablehlo.multiply": 1,
        "stablehlo.reduce": 1,
    }
    assert not diff.reordered
    assert not compare(read_program(TWICE), read_program(TWICE)).gone


def test_another_order_is_told_as_one() -> None:
    other = TWICE.replace('"stablehlo.multiply"(%1, %arg1)', '"stablehlo.multiply"(%arg1, %1)')
    assert compare(read_program(TWICE), read_program(other)).reordered


def test_the_order_of_results_is_told_in_the_header_or_the_digest() -> None:
    two = TWICE.replace('"func.return"(%5)', '"func.return"(%5, %2)')
    other = TWICE.replace('"func.return"(%5)', '"func.return"(%2, %5)')
    assert digest(two) != digest(other)
    assert not compare(read_program(two), read_program(other)).gone


def test_places_have_no_folder_of_a_machine() -> None:
    module = parse(TWICE)
    told = [one.place for one in module.regions[0].operations[1].regions[0].operations]
    assert "Norm/mul (train/model.py:12)" in told
    assert not any("somewhere" in place for place in told)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "module {}",
        '"builtin.module"() ({\n',
        TWICE[: len(TWICE) // 2],
        TWICE.replace("callee = @add_epsilon", "callee = @nowhere"),
        TWICE.replace('"stablehlo.add"(%arg4, %arg5)', '"func.call"(%arg4, %arg5) <{callee = @add_epsilon}>'),
        TWICE.replace("(%2, %3)", "(%2, %77)"),
        TWICE.replace('sym_name = "main"', 'sym_name = "other"'),
        TWICE.replace("^bb0(%arg2", "^bb1(%arg9: tensor<f32>):\n    ^bb0(%arg2"),
        TWICE.replace("#sdy.sharding<@mesh", "#sdy.sharding<@gone"),
        '"a"() ({\n' * 100,
    ],
)
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        digest(text)


LONG = 60_000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('%2 = "stablehlo.multiply"', '%2:999999 = "stablehlo.multiply"'),
        ("callee = @add_epsilon", 'callee = @add_epsilon, x = "' + '\\"' * LONG),
        (CALL, '"func.call"(%arg0) <{callee = @add_epsilon}>'),
        ('sym_visibility = "private"', 'x = @add_epsilon, sym_visibility = "private"'),
        ("%5)", "%5" + ", %404" * LONG + ")"),
    ],
    ids=["results", "strings", "operands", "own name", "unknown values"],
)
def test_what_would_take_for_ever_is_refused_at_once(before: str, after: str) -> None:
    hostile = TWICE.replace(before, after, 1)
    assert hostile != TWICE
    began = time.monotonic()
    with pytest.raises(Refused):
        digest(hostile)
    assert time.monotonic() - began < 2


def test_places_that_are_none_do_no_harm() -> None:
    assert digest(TWICE.replace('loc("Norm/mul"(#loc1))', 'loc(")')) == digest(TWICE)
    began = time.monotonic()
    parse(TWICE.replace(" loc(#loc2)\n    %3", " loc(fused" * LONG + "\n    %3"))
    assert time.monotonic() - began < 2


def test_calls_that_double_are_refused_before_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [TWICE]
    for number in range(40):
        call = f'"func.call"(%a, %a) <{{callee = @f{number + 1}}}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
        if number == 39:
            call = call.replace("@f40", "@add_epsilon")
        parts.append(
            f'  "func.func"() <{{sym_name = "f{number}"}}> ({{\n  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):\n'
            f'    %0 = {call}\n    %1 = {call}\n    "func.return"(%1) : (tensor<4xf32>) -> ()\n  }}) : () -> ()\n'
        )
    body, _, end = TWICE.rpartition("}) {mhlo")
    doubled = "".join([body.replace("@add_epsilon", "@f0", 1), *parts[1:], "}) {mhlo", end])
    nested = doubled.replace("@f1}>", "@f0}>", 1)
    with pytest.raises(Refused, match="calls itself"):
        digest(nested)
    monkeypatch.setattr("registry.core.dataflow.MOST_WORK", 10_000)
    with pytest.raises(Refused, match="larger"):
        digest(doubled)


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,x", "1,2,3,-4", "1,2,3,4,5", "1,,3,4"])
def test_a_mesh_is_four_numbers(text: str) -> None:
    assert parse_mesh("11,1,64,1") == (11, 1, 64, 1)
    with pytest.raises(Refused):
        parse_mesh(text)


def test_a_record_says_what_was_lowered_for_what() -> None:
    facts = {"stage": "rung/d48", "platform": "cpu", "devices": 2, "mesh": {"data": 2}, "libraries": {"jax": "0.10.2"}}
    lowered = Lowered(commit="a" * 40, facts=facts, mlir=TWICE)
    one = lowered.record(None, "a" * 40)
    assert (one.program, one.form, one.devices) == (lowered.digest, FORM, 2)
    assert Program.from_json(one.to_json()) == one
    with pytest.raises(MalformedRecord):
        lowered.record(None, "abc")
    assert Programs.build([(lowered.digest, b"{}")]).damages
