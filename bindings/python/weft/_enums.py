"""Enumerations of weft.h by their names in small letters, as C++ has them."""

from __future__ import annotations

from typing import Any

from ._native import ffi
from .errors import bad_argument


class Names:
    """The values of one enumeration: `Names("weft_flow", "WEFT_FLOW_")("credits")`."""

    def __init__(self, enumeration: str, prefix: str) -> None:
        elements: dict[int, str] = ffi.typeof(enumeration).elements
        self.values = {name[len(prefix):].lower(): value for value, name in sorted(elements.items())}
        self.names = {value: name for name, value in self.values.items()}
        self.what = enumeration[len("weft_"):]

    def __call__(self, name: Any, operation: str) -> int:
        found = self.values.get(name)
        if found is None:
            raise bad_argument(operation, f"{self.what} is {name!r}", "one of " + ", ".join(self.values))
        return found


FLOW = Names("weft_flow", "WEFT_FLOW_")
PLACEMENT = Names("weft_placement", "WEFT_PLACEMENT_")
UNTIL = Names("weft_until", "WEFT_UNTIL_")
NEEDED = Names("weft_needed", "WEFT_NEEDED_")
REDUCTION = Names("weft_reduction", "WEFT_REDUCTION_")
COLLECTIVE = Names("weft_collective_kind", "WEFT_COLLECTIVE_")
ALGORITHM = Names("weft_algorithm", "WEFT_ALGORITHM_")
OPTIMIZER = Names("weft_optimizer_kind", "WEFT_OPTIMIZER_")
SCHEDULE = Names("weft_schedule_kind", "WEFT_SCHEDULE_")
CONSISTENCY = Names("weft_consistency_kind", "WEFT_CONSISTENCY_")
LATE = Names("weft_late", "WEFT_LATE_")
COMPRESSION = Names("weft_compression_kind", "WEFT_COMPRESSION_")
RENDEZVOUS_MESSAGE = Names("weft_rendezvous_message", "WEFT_RENDEZVOUS_")
CODE = Names("weft_code", "WEFT_CODE_")
