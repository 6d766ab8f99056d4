"""How tables are updated: rules, schedules, consistency, compression, checkpoints. docs/pslib.md defines the
arithmetic."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Callable

from .. import _dtypes, _enums
from .._callbacks import Callback, Working
from .._native import ffi, lib
from ..errors import bad_argument, c_text, check


def sized(kind: str) -> Any:
    """A struct that begins with its size, with everything else 0."""
    made = ffi.new(kind + "*")
    made.struct_size = ffi.sizeof(kind)
    return made


def set_parts(options: Any, parts: dict[str, Any], held: list[Any], operation: str) -> None:
    """Sets the fields of a table's options that are structs themselves."""
    for field, part in parts.items():
        if part is None:
            continue
        if not hasattr(part, "c_struct"):
            kind = {"checkpoint": "CheckpointOptions"}.get(field, field.capitalize())
            raise bad_argument(operation, f"{field} is {part!r}", f"give a weft.pslib.{kind}")
        setattr(options, field, part.c_struct(held))


@dataclass(frozen=True)
class RuleStep:
    """The constants of one update."""

    update: int  #: the number of the update, from 1
    learning_rate: float  #: the optimizer's, multiplied by the schedule's factor
    weight_decay: float  #: the optimizer's; not yet added to the gradient


@dataclass(frozen=True)
class Rule:
    """A rule of the user's: `apply(step, parameters, gradient, states)` updates float32 arrays in place.

    weft calls it for short runs of elements, in any order, on its own threads, so an element's result may depend on
    that element's values alone. It must not call weft. An exception in it leaves the run as it is, and the table's next
    call on this rank raises it."""

    text: str  #: the rule and its constants, for people; rules with equal texts must be equal
    apply: Callable[[RuleStep, Any, Any, list[Any]], None]
    states: int = 0  #: the number of state arrays, at most 2, which start as zeros


class RuleCallback(Callback):
    """A rule as C calls it, until the table that it was given to is closed."""


@ffi.def_extern(name="weft_python_rule")  # type: ignore[misc]
def _apply(context: Any, step: Any, parameters: Any, gradient: Any, states: Any, count: int) -> None:
    callback = Callback.of(context)
    try:
        rule: Any = callback.function
        with ExitStack() as stack:
            # The gradient last: it is weft's to read.
            addresses = [parameters, *states[0:rule.states], gradient]
            copies = [stack.enter_context(Working(address, count, _F32)) for address in addresses]
            rule.apply(RuleStep(step.update, step.learning_rate, step.weight_decay), copies[0].array, copies[-1].array,
                       [copy.array for copy in copies[1:-1]])
            for copy in copies[:-1]:
                copy.write_back()
    except BaseException as error:
        callback.failure = error


_F32 = _dtypes.NAMES.index("f32")


@dataclass(frozen=True)
class Optimizer:
    """The rule by which a shard turns the mean gradient of the workers into new parameters: `Optimizer("adam", 0.01)`,
    or with a rule of the user's, `Optimizer(Rule(...), 0.01)`. None stands for the kind's default."""

    kind: str | Rule = "sgd"
    learning_rate: float | None = None
    weight_decay: float | None = None
    momentum: float | None = None  #: momentum, nesterov, lars
    rho: float | None = None  #: rmsprop
    beta1: float | None = None  #: adam, adamw
    beta2: float | None = None  #: adam, adamw
    epsilon: float | None = None  #: adagrad, rmsprop, adam, adamw
    ftrl_beta: float | None = None
    l1: float | None = None  #: ftrl
    l2: float | None = None  #: ftrl
    trust: float | None = None  #: lars

    def c_struct(self, held: list[Any]) -> Any:
        made = sized("weft_optimizer")
        kind = "user" if isinstance(self.kind, Rule) else self.kind
        check(lib.weft_optimizer_defaults(_enums.OPTIMIZER(kind, "optimizer"), made))
        for name in ("learning_rate", "weight_decay", "momentum", "rho", "beta1", "beta2", "epsilon", "ftrl_beta", "l1",
                     "l2", "trust"):
            value = getattr(self, name)
            if value is not None:
                setattr(made, name, value)
        if isinstance(self.kind, Rule):
            rule, callback = sized("weft_rule"), RuleCallback(self.kind)  # type: ignore[arg-type]
            text = ffi.new("char[]", c_text(self.kind.text))
            rule.text, rule.states, rule.apply, rule.context = text, self.kind.states, lib.weft_python_rule, \
                callback.context
            made.rule = rule
            held += [rule, text, callback]
        held.append(made)
        return made


@dataclass(frozen=True)
class Schedule:
    """A factor on the learning rate as a function of the update: a warm-up, then a shape."""

    kind: str = "constant"  #: or "step", "exponential", "linear", "cosine"
    warmup: int = 0  #: updates in which the factor rises to 1
    period: int = 1  #: updates, counted from the end of the warm-up
    gamma: float = 0.1  #: step, exponential
    floor: float = 0.0  #: linear, cosine: the final factor

    def c_struct(self, held: list[Any]) -> Any:
        made = sized("weft_schedule")
        made.kind = _enums.SCHEDULE(self.kind, "schedule")
        made.warmup, made.period, made.gamma, made.floor = self.warmup, self.period, self.gamma, self.floor
        held.append(made)
        return made

    def factor(self, update: int) -> float:
        """The factor in update number `update`, from 1."""
        out = ffi.new("double*")
        check(lib.weft_schedule_factor(self.c_struct([]), update, out))
        return float(out[0])


@dataclass(frozen=True)
class Consistency:
    """How far workers may be out of step, and which gradients an update takes."""

    kind: str = "bsp"  #: or "ssp", "async", "k_of_n"
    staleness: int = 0  #: ssp: clocks
    k: int = 1  #: k_of_n: gradients per update
    late: str = "dropped"  #: k_of_n: or "folded"

    def c_struct(self, held: list[Any]) -> Any:
        made = sized("weft_consistency")
        made.kind = _enums.CONSISTENCY(self.kind, "consistency")
        made.late = _enums.LATE(self.late, "consistency")
        made.staleness, made.k = self.staleness, self.k
        held.append(made)
        return made


@dataclass(frozen=True)
class Compression:
    """The part of the gradients that a push carries; the rest is added to the next push's."""

    kind: str = "none"  #: or "int8", "top_k"
    ratio: float = 0.01  #: top_k: share of each tensor's elements, in (0, 1)

    def c_struct(self, held: list[Any]) -> Any:
        made = sized("weft_compression")
        made.kind, made.ratio = _enums.COMPRESSION(self.kind, "compression"), self.ratio
        held.append(made)
        return made


@dataclass(frozen=True)
class CheckpointOptions:
    """How a table is saved and restored."""

    folder: str | os.PathLike[str]  #: that all servers can reach, and all ranks if they restore
    every: int = 0  #: save every `every`-th version, from a background thread; 0: never
    keep: int | None = 3  #: after each checkpoint, remove all but the newest, or None: all stay
    restore: bool = True  #: start from the newest complete checkpoint

    def c_struct(self, held: list[Any]) -> Any:
        made = sized("weft_checkpoint_options")
        folder = ffi.new("char[]", c_text(os.fspath(self.folder)))
        made.folder, made.every = folder, self.every
        made.keep = lib.WEFT_KEEP_ALL if self.keep is None else self.keep
        made.no_restore = not self.restore
        held += [folder, made]
        return made


def rule_of(held: list[Any]) -> Callback | None:
    """The rule among what a table's options hold."""
    for value in held:
        if isinstance(value, RuleCallback):
            return value
    return None
