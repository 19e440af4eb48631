"""The values that settings can have: what their texts stand for, and whether they are valid."""

import re
from math import fsum, inf
from typing import Literal, cast

from pipeline.classes import SUM_TOLERANCE, Classes

HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d{1,5}))?")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KAFKA_PORT = 9092

ClassPrior = Literal["learned", "uniform"] | tuple[float, ...]


def yes_or_no(text: str) -> bool:
    """The value of true or false; KeyError for anything else."""
    return {"true": True, "false": False}[text.strip().lower()]


def is_broker(value: str) -> bool:
    """Whether a value is a list of Kafka addresses."""
    return bool(value) and all(host_and_port(part) for part in value.split(","))


def host_and_port(address: str) -> str | None:
    """An address as Kafka clients take it; None if it is invalid.

    >>> host_and_port("kafka://one"), host_and_port("one:99999")
    ('one:9092', None)
    """
    found = HOST_AND_PORT.fullmatch(address.strip().removeprefix("kafka://"))
    if found is None or int(found[2] or KAFKA_PORT) > 65535:
        return None
    return f"{found[1]}:{found[2] or KAFKA_PORT}"


def is_name(value: str) -> bool:
    """Whether a value can be part of the name of a topic or a group member."""
    return NAME.fullmatch(value) is not None


def is_host(value: str) -> bool:
    """Whether a value can be a host name or address."""
    return bool(value) and not re.search(r"[\s/]", value)


def is_positive(value: float) -> bool:
    """Whether a number is positive and finite."""
    return 0 < value < inf


def are_classes(value: str) -> bool:
    """True for classes; otherwise `Classes.parse` raises ValueError with the problem."""
    return len(Classes.parse(value)) > 1


def class_prior_of(text: str) -> ClassPrior:
    """The class prior in a text, or ValueError.

    >>> class_prior_of("uniform"), class_prior_of("0.2, 0.3, 0.5")
    ('uniform', (0.2, 0.3, 0.5))
    """
    if text == "learned" or text == "uniform":
        return cast(ClassPrior, text)
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError("these are not numbers separated by commas") from None
    if not all(0 < number < 1 for number in numbers):
        raise ValueError("each number must be between 0 and 1")
    if abs(fsum(numbers) - 1) > SUM_TOLERANCE:
        raise ValueError(f"the numbers add up to {fsum(numbers):.9g}")
    return numbers
