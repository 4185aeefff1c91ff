"""The rewrites in the order in which they run."""

from mayfly.optimizer.rule import Rule
from mayfly.optimizer.rules.early_pruning import EARLY_PRUNING
from mayfly.optimizer.rules.first_last import FIRST_LAST
from mayfly.optimizer.rules.fold_constants import FOLD_CONSTANTS
from mayfly.optimizer.rules.groups_in_windows import GROUPS_IN_WINDOWS
from mayfly.optimizer.rules.join_relations_first import JOIN_RELATIONS_FIRST
from mayfly.optimizer.rules.keep_panes import PANES
from mayfly.optimizer.rules.keep_subresults import KEEP_SUBRESULTS
from mayfly.optimizer.rules.limit_numbers import LIMIT_NUMBERS
from mayfly.optimizer.rules.merge_joins import MERGE_JOINS
from mayfly.optimizer.rules.order_joins import ORDER_JOINS
from mayfly.optimizer.rules.outer_to_inner import OUTER_TO_INNER
from mayfly.optimizer.rules.place_negation import PLACE_NEGATION
from mayfly.optimizer.rules.prune_columns import PRUNE_COLUMNS
from mayfly.optimizer.rules.push_distinct import PUSH_DISTINCT
from mayfly.optimizer.rules.push_predicates import PUSH_PREDICATES
from mayfly.optimizer.rules.push_semijoins import PUSH_SEMIJOINS
from mayfly.optimizer.rules.share_panes import (
    CS1,
    CS2,
    CS4,
    CS5,
    CS8,
    JOIN_PANES,
    SKETCHES,
    SS1,
    SS3,
    SS4,
)
from mayfly.optimizer.rules.split_joins import SPLIT_JOINS
from mayfly.optimizer.rules.weak_distinct import WEAK_DISTINCT

RULES: tuple[Rule, ...] = (
    FOLD_CONSTANTS,
    OUTER_TO_INNER,
    PUSH_PREDICATES,
    GROUPS_IN_WINDOWS,
    PUSH_SEMIJOINS,
    MERGE_JOINS,
    JOIN_RELATIONS_FIRST,
    PLACE_NEGATION,
    PUSH_DISTINCT,
    ORDER_JOINS,
    SPLIT_JOINS,
    KEEP_SUBRESULTS,
    LIMIT_NUMBERS,
    PRUNE_COLUMNS,
    WEAK_DISTINCT,
    EARLY_PRUNING,
    PANES,
    SS1,
    CS1,
    CS2,
    CS8,
    SS4,
    JOIN_PANES,
    SS3,
    CS4,
    CS5,
    SKETCHES,
    FIRST_LAST,
)

__all__ = ["RULES"]
