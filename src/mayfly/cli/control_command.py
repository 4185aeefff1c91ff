"""``mayfly control``: tell a running pipeline something, through the checkpoint it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.output import REFUSED, refusals
from mayfly.errors import LimitExceeded
from mayfly.pipeline.control_log import STOP, Command, ControlLog

if TYPE_CHECKING:
    from mayfly.pipeline.control_requests import Control

OVERDUE = 1
"""The exit code when a command is still not carried out after the time to wait for it."""

app = typer.Typer(no_args_is_help=True, help="Tell a running pipeline something.")

Checkpoint = Annotated[Path, typer.Argument(help="The checkpoint of the pipeline.")]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", help="Seconds to wait until it is done, or exit with 1; 0: do not wait."
    ),
]


@app.command("add")
def add_command(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="What the query is called.")],
    query: Annotated[str, typer.Argument(help="The query: SELECT …", metavar="SELECT")],
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Write its changes to files in this folder.")
    ] = None,
    wait: Wait = 0.0,
) -> None:
    """Add a query; it is refused here if it could not run."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.add(name, query, parquet=parquet), wait)


@app.command("drop")
def drop_command(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="The query that is to leave.")],
    wait: Wait = 0.0,
) -> None:
    """Drop a query, with its state and its history."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.drop(name), wait)


@app.command("stream")
def stream_command(
    checkpoint: Checkpoint,
    statement: Annotated[str, typer.Argument(help="CREATE STREAM … FROM …")],
    wait: Wait = 0.0,
) -> None:
    """Declare a stream; it is read, from its beginning on, when a query is added over it."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.stream(statement), wait)


@app.command("drop-stream")
def drop_stream_command(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="The stream that is to leave.")],
    wait: Wait = 0.0,
) -> None:
    """Stop reading a stream that no query reads any more."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.drop_stream(name), wait)


@app.command("relation")
def relation_command(
    checkpoint: Checkpoint,
    statement: Annotated[str, typer.Argument(help="CREATE RELATION … or CREATE NRR …")],
    wait: Wait = 0.0,
) -> None:
    """Declare a relation or NRR, with the rows of its source if it has one."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.relation(statement), wait)


@app.command("drop-relation")
def drop_relation_command(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="The relation that is to leave.")],
    wait: Wait = 0.0,
) -> None:
    """Forget a relation that was declared so and that no query reads any more."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.drop_relation(name), wait)


@app.command("change")
def change_command(
    checkpoint: Checkpoint,
    statement: Annotated[str, typer.Argument(help="INSERT INTO, UPDATE or DELETE FROM …")],
    wait: Wait = 0.0,
) -> None:
    """Change a relation or NRR; with AT '…' from that instant on, otherwise with the next batch."""
    with refusals():
        control = _control(checkpoint)
        _show_outcome(control, control.change(statement), wait)


@app.command("stop")
def stop_command(checkpoint: Checkpoint, wait: Wait = 0.0) -> None:
    """Stop the pipeline after the batch that is running; a later start is not stopped."""
    with refusals():
        control = ControlLog.of(checkpoint)
        _show_outcome(control, control.stop(), wait)


@app.command("log")
def log_command(checkpoint: Checkpoint) -> None:
    """Show what was asked for, and what became of it."""
    with refusals():
        control = ControlLog.of(checkpoint)
        for command in control.commands():
            typer.echo(
                f"{command.number}\t{command}\t{control.outcome(command) or _waiting(command)}"
            )


def _control(checkpoint: Path) -> Control:
    """The log with the checks of commands, which need the language: imported only for them."""
    from mayfly.pipeline.control_requests import Control

    return Control.of(checkpoint)


def _show_outcome(control: ControlLog, command: Command, wait: float) -> None:
    """Show the number of the command, and its outcome if there is one by then."""
    outcome = control.wait(command, wait) if wait else control.outcome(command)
    typer.echo(f"{command.number}: {command}: {outcome or _waiting(command)}")
    if outcome is None and wait:
        typer.echo(f"mayfly: {_overdue(command, wait)}", err=True)
        raise typer.Exit(OVERDUE)
    if outcome is not None and not outcome.startswith("done"):
        raise typer.Exit(REFUSED)


def _waiting(command: Command) -> str:
    """What will become of a command that is not applied yet."""
    if command.kind == STOP:
        return "stops the pipeline if it is running; a later start is not stopped"
    return "waits for the pipeline"


def _overdue(command: Command, wait: float) -> LimitExceeded:
    message = f"command {command.number} was not carried out within {wait:g} s"
    if command.kind == STOP:
        return LimitExceeded(
            message,
            "if a pipeline runs, it stops after its batch; if none does, there is nothing to stop",
        )
    return LimitExceeded(
        message,
        "it stays in the log, for the pipeline that runs or for the next start: "
        "see mayfly control log",
    )
