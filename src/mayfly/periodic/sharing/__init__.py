"""The sharing rules, in the order in which they are tried."""

from mayfly.periodic.sharing.cs1_same_probe import CS1
from mayfly.periodic.sharing.cs2_same_scan import CS2
from mayfly.periodic.sharing.cs3_average_after_parts import CS3
from mayfly.periodic.sharing.cs4_same_join_probe import CS4
from mayfly.periodic.sharing.cs5_same_join_scan import CS5
from mayfly.periodic.sharing.cs6_combine_answers import CS6
from mayfly.periodic.sharing.cs7_combine_scans import CS7
from mayfly.periodic.sharing.cs8_forward import CS8
from mayfly.periodic.sharing.sharing_rule import ComputationRule, StateRule
from mayfly.periodic.sharing.ss1_same_content import SS1
from mayfly.periodic.sharing.ss2_average import SS2
from mayfly.periodic.sharing.ss3_join import SS3
from mayfly.periodic.sharing.ss4_relevant_set import SS4

STATE_RULES: tuple[StateRule, ...] = (CS8, SS1, SS3, SS2, SS4)
COMPUTATION_RULES: tuple[ComputationRule, ...] = (CS1, CS2, CS3, CS4, CS5, CS6, CS7)
RULES = frozenset({r.name for r in STATE_RULES} | {r.name for r in COMPUTATION_RULES})
"""The names of all rules: those that are on unless some are switched off."""

__all__ = ["COMPUTATION_RULES", "RULES", "STATE_RULES"]
