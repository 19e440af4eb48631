"""The options of `sbic simulate` that describe the crowd."""

import click

from pipeline.cli.options import Function, in_order

POSITIVE = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(0, 1, max_open=True)
COUNT = click.IntRange(min=1)


def crowd_options(function: Function) -> Function:
    """The options of the simulated crowd: its size, and how its workers behave."""
    return in_order(
        click.option("--tasks", type=COUNT, default=1000, show_default=True),
        click.option("--workers", type=COUNT, default=2000, show_default=True),
        click.option(
            "--labels-per-task",
            type=COUNT,
            default=20,
            show_default=True,
            help="Labels per task on average: the policy decides which tasks get more.",
        ),
        click.option(
            "--at-once",
            type=COUNT,
            default=20,
            show_default=True,
            help="Workers at work at the same time.",
        ),
        click.option(
            "--accuracy",
            type=(POSITIVE, POSITIVE),
            metavar="A B",
            default=(4.0, 3.0),
            show_default=True,
            help="Workers' accuracies are drawn from Beta(A, B).",
        ),
        click.option(
            "--think",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            default=0.0,
            show_default=True,
            help="Average time that a worker thinks.",
        ),
        click.option(
            "--drop-outs",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of workers who leave with a task unanswered.",
        ),
        click.option(
            "--spammers",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of workers who answer at random.",
        ),
        click.option(
            "--habits",
            type=click.FloatRange(0, 1),
            default=0.0,
            show_default=True,
            help="Share of workers who favour a class when they do not know the answer.",
        ),
        click.option(
            "--skips",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of assigned tasks that workers skip.",
        ),
        click.option(
            "--repeats",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of assigned tasks that workers answer twice.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
    )(function)
