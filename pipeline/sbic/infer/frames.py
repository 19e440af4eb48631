"""Labels from a data frame, from rows or from columns, and results of the same kind.

Data frames of pandas, polars, pyarrow and others are read through narwhals, an extra. Rows and
columns of Python's own need nothing.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from sbic.foreign import shown

if TYPE_CHECKING:
    import narwhals as nw

NEEDED = "pandas, polars or pyarrow"
EXTRA = "data frames need an extra: run pip install 'sbic[frames]'"


class ResultKind:
    """Results as Python's own: dicts by task or worker."""

    def series(self, key: str, keys: list[Any], name: str, values: list[Any]) -> Any:
        """Return a value for each task or worker."""
        return dict(zip(keys, values, strict=True))

    def table(self, key: str, keys: list[Any], columns: Mapping[Any, Any], label: str = "") -> Any:
        """Several values for each task or worker; `label` says what the columns are."""
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return {
            name: dict(zip(columns, row, strict=True)) for name, row in zip(keys, rows, strict=True)
        }


@dataclass(frozen=True)
class FrameKind(ResultKind):
    """Results as data frames; those of pandas have tasks or workers as their index.

    `dtypes` are those of the columns of the data, which tasks, workers and labels keep.
    """

    backend: Any
    dtypes: "Mapping[str, nw.dtypes.DType]"

    def series(self, key: str, keys: list[Any], name: str, values: list[Any]) -> Any:
        """Return a series of pandas with these keys; elsewhere a frame with a column for them."""
        native = self._frame({key: keys, name: values}).to_native()
        return native.set_index(key)[name] if self.backend.is_pandas_like() else native

    def table(self, key: str, keys: list[Any], columns: Mapping[Any, Any], label: str = "") -> Any:
        """Return a frame; columns are named as given in pandas, and elsewhere by their text."""
        named = {str(name): column for name, column in columns.items()}
        if key in named or len(named) < len(columns):
            raise ValueError(f"names of columns must differ, and from {key}: {shown([*columns])}")
        native = self._frame({key: keys, **named}).to_native()
        if not self.backend.is_pandas_like():
            return native
        native = native.set_index(key)
        native.columns = list(columns)
        native.columns.name = label or None
        return native

    def _frame(self, columns: Mapping[str, Any]) -> "nw.DataFrame[Any]":
        import narwhals as nw

        like = {**self.dtypes, "agg_label": self.dtypes.get("label")}
        first, *others = (
            nw.new_series(name, values, like.get(name), backend=self.backend)
            for name, values in columns.items()
        )
        return first.to_frame().with_columns(*others)


@dataclass(frozen=True)
class FrameColumns:
    """Columns as lists of Python's own values, missing ones as None, and the kind they came as."""

    values: tuple[list[Any], ...]
    kind: ResultKind

    @classmethod
    def of(cls, data: Any, names: Sequence[str]) -> "FrameColumns":
        """Read the columns of these names, in this order.

        `data` is a data frame, a dict of columns, or rows with a value for each of the names.

        >>> rows = [("t1", "ann", 1), ("t1", "bob", None)]
        >>> FrameColumns.of(rows, ("task", "worker", "label")).values
        (['t1', 't1'], ['ann', 'bob'], [1, None])
        >>> FrameColumns.of({"task": ["t1"], "weight": [2]}, ("task", "worker"))
        Traceback (most recent call last):
        ValueError: there is no column worker among ['task', 'weight']
        """
        if isinstance(data, Mapping):
            _check_names(list(data), names)
            found = [[_present(value) for value in _listed(data[name])] for name in names]
            if len({len(column) for column in found}) > 1:
                raise ValueError(f"the columns {', '.join(names)} differ in length")
            return cls(tuple(found), ResultKind())
        if isinstance(data, list | tuple) or (isinstance(data, Iterable) and iter(data) is data):
            return cls(_of_rows(list(data), names), ResultKind())
        frame = _opened(data)
        _check_names(frame.columns, names)
        columns = [_without_nan(frame[name]) for name in names]
        dtypes = {name: frame.schema[name] for name in names}
        return cls(tuple(columns), FrameKind(frame.implementation, dtypes))


def truths_of(gold: Any) -> dict[Any, Any]:
    """Return the truth of each task, from a mapping, a series of pandas or columns task and truth.

    >>> truths_of({"t1": "cat", "t2": None})
    {'t1': 'cat'}
    >>> truths_of([("t1", "cat")])
    {'t1': 'cat'}
    """
    if gold is None:
        return {}
    if isinstance(gold, Mapping):
        pairs: Iterable[tuple[Any, Any]] = gold.items()
    elif hasattr(gold, "index") and hasattr(gold, "items") and not hasattr(gold, "columns"):
        pairs = gold.items()  # a series of pandas: tasks are its index
    else:
        pairs = zip(*FrameColumns.of(gold, ("task", "truth")).values, strict=True)
    return {task: truth for task, truth in pairs if _present(truth) is not None}


def standing(tasks: list[Any], workers: list[Any], labels: list[Any]) -> tuple[list[Any], ...]:
    """Drop skips, whose label is None; every label must have a task and a worker."""
    for name, column in ("task", tasks), ("worker", workers):
        if None in column:
            raise ValueError(f"row {column.index(None)} has no {name}")
    if None not in labels:
        return tasks, workers, labels
    is_label = [label is not None for label in labels]
    return tuple(list(compress(column, is_label)) for column in (tasks, workers, labels))


def in_order(labels: Iterable[Hashable]) -> tuple[Any, ...]:
    """Return the different labels in their order; in that of their text where they have none.

    >>> in_order([2, 10, 2]), in_order(["b", "a"]), in_order([1, "a"])
    ((2, 10), ('a', 'b'), (1, 'a'))
    """
    different: set[Any] = set(labels)
    try:
        return tuple(sorted(different))
    except TypeError:
        return tuple(sorted(different, key=str))


def _opened(data: Any) -> "nw.DataFrame[Any]":
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError(EXTRA) from None
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise TypeError(
            f"give a data frame of {NEEDED}, a dict of columns or a list of rows,"
            f" not a {type(data).__name__}"
        ) from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _check_names(there: Sequence[Any], names: Sequence[str]) -> None:
    for name in names:
        if name not in there:
            raise ValueError(f"there is no column {name} among {shown(list(there), 200)}")


def _of_rows(rows: list[Any], names: Sequence[str]) -> tuple[list[Any], ...]:
    for number, row in enumerate(rows):
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ValueError(f"row {number} is not ({', '.join(names)}) but {shown(row)}")
    return tuple([_present(row[place]) for row in rows] for place in range(len(names)))


def _without_nan(column: "nw.Series[Any]") -> list[Any]:
    values = column.to_list()
    if column.dtype.is_float() or column.is_null().any():
        return [_present(value) for value in values]
    return values


def _present(value: Any) -> Any:
    """Return the value, or None where it is missing: only what is missing differs from itself."""
    try:
        return value if value == value else None
    except (TypeError, ValueError):  # pandas.NA
        return None


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return values
