"""Cutting a program into stages: what runs where the rows are, and what has to move first.

Idea: an operator with a key needs equal keys in one bucket, so its inputs are exchanged by that
key; a count window over a whole stream, Rstream and NOT IN over NULLs need everything in one place
(bucket 0). Selections and projections run where their input is. A time window has no order of its
own: it runs in the stage that first needs its rows, behind its stream's selections and projections,
which are done before the exchange. Rows that already are where an operator needs them do not move
(they say so), so that a key is exchanged once. Invariant: stages run in order, and an edge never
leads back. Where rows lie is part of the state format: other rules here need another number there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mayfly.kernels.delta import ID, OWNER
from mayfly.kernels.operator import Moving, Operator
from mayfly.kernels.outputs import Sent
from mayfly.physical.closing_keys import forgetful_states
from mayfly.physical.closing_tasks import with_closed_keys
from mayfly.physical.joint_readers import JointProgram, joint
from mayfly.physical.program import RelationInput, Source, StreamInput, Task
from mayfly.physical.shared_program import Member, SharedProgram
from mayfly.physical.stages import (
    ClosedStream,
    Feed,
    KeyOrNull,
    Link,
    NumberKey,
    OperatorKey,
    Route,
    StagedAnswer,
    StagedForgetting,
    StagedProgram,
    StagedTask,
    ValueKey,
)
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.spread import Spread


def staged(program: SharedProgram) -> StagedProgram:
    """The program cut into stages."""
    return stage_tasks(program)[0]


def stage_tasks(
    program: SharedProgram, *, together: bool = True
) -> tuple[StagedProgram, tuple[Task, ...]]:
    """The program cut into stages, and its tasks in the order of their numbers; queries over the
    same panes answered ``together``."""
    joined = joint(program) if together else JointProgram(program, {})
    stager = _Stager(joined)
    return stager.result(), tuple(task for task in stager.order if task in stager.stage)


class _Stager:
    def __init__(self, together: JointProgram) -> None:
        self.written, self.shares = together.program, together.shares
        program = self.program = with_closed_keys(self.written)
        self.order = program.tasks()
        groups = [member.group for member in program.members]
        self.groups = tuple(dict.fromkeys([*groups, *program.groups.values()]))
        self.number = {task: number for number, task in enumerate(self.order)}
        self.consumers: dict[Task, list[tuple[Task, int]]] = {task: [] for task in self.order}
        for task in self.order:
            for side, source in enumerate(task.inputs):
                if isinstance(source, Task):
                    self.consumers[source].append((task, side))
        self.stage: dict[Task, int] = {}
        self.bucketed: dict[Task, bool] = {}
        self.spread: dict[Task, Spread] = {}
        self.places: dict[Task, tuple[str, ...]] = {}
        self.floating: set[Task] = set()
        self.feeds: list[Feed] = []
        self.links: list[Link] = []
        self.local: dict[Task, list[int | None]] = {}
        self.rewritten: dict[Task, Operator] = {}
        self.columns: dict[Task, pa.Schema] = {}

    def result(self) -> StagedProgram:
        for task in self.order:
            self._place(task)
        for member in self.program.members:
            if member.program.answer in self.floating:
                self._settle(member.program.answer, 0, Route(), True)
        kept = [task for task in self.order if task in self.stage]
        renumbered = {task: number for number, task in enumerate(kept)}
        tasks = tuple(self._staged(task, renumbered) for task in kept)
        return StagedProgram(
            tasks,
            tuple(replace(feed, task=renumbered[self.order[feed.task]]) for feed in self.feeds),
            tuple(
                replace(
                    link,
                    task=renumbered[self.order[link.task]],
                    consumer=renumbered[self.order[link.consumer]],
                )
                for link in self.links
            ),
            tuple(self._answer(member, renumbered) for member in self.program.members),
            self.groups,
            tuple(self._closed(renumbered)),
        )

    def _closed(self, renumbered: dict[Task, int]) -> Iterator[ClosedStream]:
        """What closes keys, and which states forget these: those that lie beside it."""
        closers = {
            task: source.stream
            for task in renumbered
            for source in task.inputs
            if isinstance(source, StreamInput) and source.closing is not None
        }
        places = {(self.program.groups[task], name): task for task, name in closers.items()}
        named = {self.program.names[task]: task for task in renumbered}
        forgetful: dict[Task, list[StagedForgetting]] = {task: [] for task in closers}
        for state in forgetful_states(self.written.tasks()) if closers else ():
            task = named[self.written.names[state.task]]
            group = self.program.groups[task]
            needed = [places[group, closing.stream] for closing in state.closings]
            if all(self.stage[closer] == self.stage[task] for closer in needed):
                by = tuple(
                    (renumbered[closer], closing)
                    for closer, closing in zip(needed, state.closings, strict=True)
                )
                forgetful[needed[0]].append(StagedForgetting(renumbered[task], state.parts, by))
        counted = set[str]()
        for task, states in forgetful.items():
            stream = closers[task]
            yield ClosedStream(renumbered[task], stream, stream not in counted, tuple(states))
            counted.add(stream)

    def _answer(self, member: Member, renumbered: dict[Task, int]) -> StagedAnswer:
        standing, sent = self._standing(member.program.answer), member.program.sent
        stage, route, place = self._output_stage(standing, sent)
        group = self.groups.index(member.group)
        strict = sent is None and member.program.answer.strict
        return StagedAnswer(
            member.name, renumbered[standing], sent, stage, route, group, place, strict,
            self.shares.get(member.name),
        )  # fmt: skip

    def _staged(self, task: Task, renumbered: dict[Task, int]) -> StagedTask:
        relation = next(
            (source for source in task.inputs if isinstance(source, RelationInput)), None
        )
        local = tuple(
            None if number is None else renumbered[self.order[number]]
            for number in self.local[task]
        )
        operator = self.rewritten.get(task, task.operator)
        shown = self.columns.get(task, task.columns)
        if operator.owned:
            shown = pa.schema([*shown, (OWNER, pa.int64())])
        return StagedTask(
            renumbered[task], operator, self.stage[task], local, relation, shown,
            self.bucketed[task], self.program.names[task],
            self.groups.index(self.program.groups[task]), self.places[task],
        )  # fmt: skip

    # ── placing ───────────────────────────────────────────────────────────────────────────

    def _place(self, task: Task) -> None:
        source = task.inputs[0]
        if isinstance(source, RelationInput):
            self.floating.add(task)
            return
        if isinstance(source, StreamInput):
            self._place_window(task, source)
            return
        match task.operator.moving:
            case Moving.NEAR if source in self.floating and self._passes_on(task):
                self.floating.add(task)
            case Moving.NEAR | Moving.FREE:
                self._place_near(task, source)
            case Moving.MERGED:
                self._place_union(task)
            case Moving.COUNTED:
                self._place_output_window(task, source)
            case Moving.OWNED:
                self._place_by_identity(task, [source, *_tasks(task.inputs[1:])])
            case _:
                self._place_keyed(task)

    def _place_window(self, task: Task, source: StreamInput) -> None:
        """Over a stream: in the stage that first needs its rows, unless their order matters."""
        if task.operator.moving is Moving.FREE and self._goes_to_one(task):
            self.floating.add(task)
            return
        route = _window_route(task.operator)
        self._fix(task, 0, not route.single, [None])
        if not route.single:
            self._send_by_key(task, [None])
        self.feeds.append(Feed(source, task.operator.intake, self.number[task], 0, route))

    def _passes_on(self, task: Task) -> bool:
        return task.operator.passes and self._goes_to_one(task)

    def _goes_to_one(self, task: Task) -> bool:
        """Whether the rows of a task are needed in one place: a negation and the join that makes
        its pairs are in the same."""
        readers = [reader for reader, _ in self.consumers[task]]
        if len(readers) == 2:
            pairs, negation = readers
            return negation.operator.moving is Moving.OWNED and pairs in negation.inputs
        return len(readers) <= 1

    def _place_near(self, task: Task, source: Task) -> None:
        """Place a task in the stage of its input; changes of a relation reach every stage. Rows of
        a stream may be anywhere: where the key of a join with a relation sends them, if it does."""
        if source in self.floating:
            key = tuple(name for name in task.operator.key_of() if name)
            self._settle(source, 0, Route(ValueKey(key)) if key else Route(), True)
            self.spread[self._standing(source)] = Spread.by(key)
        source = self._standing(source)
        spread, others = self.spread[source], task.inputs[1:]
        local = [self.number[source], *(None for _ in others)]
        self._fix(task, self.stage[source], self.bucketed[source], local)
        for side, child in enumerate(others, 1):
            assert isinstance(child, Task)
            self._connect(child, task, side, Route())
        self.spread[task] = task.operator.spread_after([spread])
        if task.operator.moving is Moving.FREE:
            self.places[task] = spread.within(task.columns.names)
        elif task.operator.lies_by_columns:
            self.places[task] = task.operator.place(spread)

    def _place_union(self, task: Task) -> None:
        inputs = [source for source in task.inputs if isinstance(source, Task)]
        if all(source in self.floating for source in inputs) and self._goes_to_one(task):
            self.floating.add(task)
            return
        fixed = [source for source in inputs if source in self.stage]
        stage = max((self.stage[source] for source in fixed), default=0)
        bucketed = any(self.bucketed[source] for source in fixed) or not fixed
        self._fix(task, stage, bucketed, [None] * len(inputs))
        operator = task.operator
        parts = [(source.columns, self.spread[source]) for source in fixed]
        key = operator.spread_of(parts).within(task.columns.names)
        route = Route(single=not bucketed)
        if key:
            # Streams go where the other rows are: perhaps these need not move then.
            self.spread[task] = Spread.by(key)
            route = Route(ValueKey(key), before=(operator,))
        for side, source in enumerate(inputs):
            self._connect(source, task, side, route, straight=bool(key))

    def _place_output_window(self, task: Task, source: Task) -> None:
        operator = task.operator
        route = _window_route(operator)
        stage, kept = self._meeting(operator, [source], not route.single)
        self._fix(task, stage, not route.single, [None])
        if not route.single:
            self._send_by_key(task, kept)
        self._connect(source, task, 0, route)

    def _place_keyed(self, task: Task) -> None:
        inputs = [source for source in task.inputs if isinstance(source, Task)]
        operator = task.operator
        keyed = operator.keyed
        stage, kept = self._meeting(operator, inputs, keyed)
        self._fix(task, stage, keyed, [None] * len(inputs))
        if keyed:
            self._send_by_key(task, kept)
        for side, source in enumerate(inputs):
            route = Route(OperatorKey(operator), side) if keyed else Route(single=True)
            moves = source in self.stage and kept[side] is None
            if side == 0 and moves and operator.may_lack_parts:
                # A negation keeps no rows without a key. When buckets change, the results of those
                # that another stage sent are sought where NULL goes.
                route = Route(KeyOrNull(operator))
                self.spread[task] = Spread()
            self._connect(source, task, side, route, straight=kept[side] is not None)

    def _meeting(
        self, operator: Operator, inputs: Sequence[Task], keyed: bool
    ) -> tuple[int, list[Spread | None]]:
        """The stage in which rows meet, and what those are spread by that need not move for it.

        Where others have to come from another stage, what makes rows that need not move runs in
        the later stage with them, or they go straight to it. That is all that may depend on who
        else reads them: queries come and go, and what is stored has to be found.
        """
        fixed = [(side, source) for side, source in enumerate(inputs) if source in self.stage]
        here = {
            side: source
            for side, source in fixed
            if keyed and operator.stays(side, self.spread[source])
        }
        others = [self.stage[source] + 1 for side, source in fixed if side not in here]
        stage = max([0, *others, *(self.stage[source] for source in here.values())])
        for source in here.values():
            self._lift(source, stage)
        return stage, [
            self.spread[source] if n in here else None for n, source in enumerate(inputs)
        ]

    def _lift(self, task: Task, stage: int) -> None:
        """Let a task run in this stage, with all that it has in its own, unless others read some
        of it there."""
        own, group, ahead = self.stage[task], {task}, [task]
        if own == stage:
            return
        while ahead:
            below = (self.order[number] for number in self.local[ahead.pop()] if number is not None)
            ahead += [
                source for source in below if source not in group and self.stage[source] == own
            ]
            group.update(ahead)
        readers = {reader for member in group for reader, _ in self.consumers[member]}
        if any(reader in self.stage and reader not in group for reader in readers):
            return
        self.stage.update(dict.fromkeys(group, stage))
        numbers_of = {self.number[member] for member in group}
        self.feeds = [
            replace(feed, stage=stage) if feed.task in numbers_of else feed for feed in self.feeds
        ]
        self.links = [
            replace(link, stage=stage) if link.consumer in numbers_of else link
            for link in self.links
        ]

    def _send_by_key(self, task: Task, kept: Sequence[Spread | None]) -> None:
        """Where the results and the stored rows of a task are whose inputs stay or come by key."""
        self.spread[task] = task.operator.spread_after(kept)
        self.places[task] = task.operator.place(kept[0])

    def _place_by_identity(self, task: Task, inputs: list[Task]) -> None:
        """Beside the join that makes its pairs, which has spread the left rows by its key; pairs
        from several joins move to where their left row goes."""
        left, pairs = inputs
        operator = pairs.operator
        if not operator.passes:
            self._fix(task, self.stage[pairs], self.bucketed[pairs], [None, self.number[pairs]])
            keyed = self.bucketed[pairs]
            route = Route(OperatorKey(operator), 0) if keyed else Route(single=True)
            self._connect(left, task, 0, route)
            stayed = self.spread[self._standing(left)] if self.local[task][0] is not None else None
            key = Spread.by(operator.key_of()) if keyed else Spread()
            self.spread[task] = key | task.operator.spread_after([stayed])
            return
        fixed = [self.stage[source] for source in inputs if source in self.stage]
        self._fix(task, max(fixed) + 1, True, [None, None])
        self._connect(left, task, 0, Route(NumberKey(ID)))
        self._connect(pairs, task, 1, Route(NumberKey(OWNER)))

    def _connect(
        self, source: Task, task: Task, side: int, route: Route, *, straight: bool = False
    ) -> None:
        stage = self.stage[task]
        if source in self.floating:
            self._settle(source, stage, route, self.bucketed[task])
            self.local[task][side] = self.number[self._standing(source)]
            return
        source = self._standing(source)
        if self.stage[source] == stage:
            self.local[task][side] = self.number[source]
            return
        link = Link(self.number[source], self.number[task], side, stage, route, straight)
        self.links.append(link)

    def _fix(self, task: Task, stage: int, bucketed: bool, local: list[int | None]) -> None:
        self.stage[task], self.bucketed[task], self.local[task] = stage, bucketed, local
        self.spread[task], self.places[task] = Spread(), ()
        self.floating.discard(task)

    # ── time windows ──────────────────────────────────────────────────────────────────────

    def _standing(self, task: Task) -> Task:
        """The task that stands for a settled chain: the window behind its selections."""
        while task not in self.stage:
            (source,) = [child for child in task.inputs if isinstance(child, Task)][:1]
            task = source
        return task

    def _settle(self, task: Task, stage: int, route: Route, bucketed: bool) -> None:
        """Give a floating chain its stage; its selections and projections move before it."""
        operator = task.operator
        if isinstance(task.inputs[0], RelationInput):
            self._fix(task, stage, bucketed, [None])
            return
        if operator.moving is Moving.MERGED:
            inputs = [child for child in task.inputs if isinstance(child, Task)]
            self._fix(task, stage, bucketed, [None] * len(inputs))
            for side, child in enumerate(inputs):
                self._settle(
                    child, stage, replace(route, before=(operator, *route.before)), bucketed
                )
                self.local[task][side] = self.number[self._standing(child)]
            return
        path: list[Operator] = []
        scan = task
        while scan.operator.moving is Moving.NEAR:
            path.insert(0, scan.operator)
            (scan,) = [child for child in scan.inputs if isinstance(child, Task)]
        source = scan.inputs[0]
        if not isinstance(source, StreamInput):
            self._settle_in_place(task, stage, route, bucketed)
            return
        for moved in [part for part in self._chain(task) if part is not scan]:
            self.floating.discard(moved)
        self._fix(scan, stage, bucketed, [None])
        window: Any = scan.operator
        self.rewritten[scan] = replace(window, columns=task.columns)
        self.columns[scan] = task.columns
        self.feeds.append(Feed(source, tuple(path), self.number[scan], stage, route))

    def _settle_in_place(self, task: Task, stage: int, route: Route, bucketed: bool) -> None:
        """A chain over a relation or a union: its operators run in the stage."""
        (source,) = [child for child in task.inputs if isinstance(child, Task)]
        before = (task.operator, *route.before)
        self._settle(source, stage, replace(route, before=before), bucketed)
        self._fix(task, stage, bucketed, [self.number[self._standing(source)]])

    def _chain(self, task: Task) -> list[Task]:
        chain = [task]
        while chain[-1].operator.moving is Moving.NEAR:
            chain += [source for source in chain[-1].inputs if isinstance(source, Task)][:1]
        return chain

    # ── the output ────────────────────────────────────────────────────────────────────────

    def _output_stage(
        self, standing: Task, sent: Sent | None
    ) -> tuple[int, Route, tuple[str, ...]]:
        stage = self.stage[standing]
        if sent is None:
            return stage, Route(), ()
        if sent.kind is OutputKind.RSTREAM or sent.restore:
            return stage + int(self.bucketed[standing]), Route(single=True), ()
        names = tuple(sent.columns.names)
        kept = self.spread[standing].within(names)
        return stage + (0 if kept else 1), Route(ValueKey(names)), kept or names


def _window_route(operator: Operator) -> Route:
    if not operator.keyed:
        return Route(single=True)
    return Route(ValueKey(tuple(name for name in operator.key_of() if name)))


def _tasks(inputs: Sequence[Task | Source]) -> list[Task]:
    return [source for source in inputs if isinstance(source, Task)]
