"""Reads the annotations of a file exported by Label Studio, as JSON or JSON_MIN."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.files.errors import BadFile
from pipeline.files.json_array import elements
from pipeline.foreign import shown
from pipeline.label_studio.annotation import Annotation, read_annotation, read_row
from pipeline.label_studio.choices import Choices, Problem


def read_export(
    path: str, choices: Choices, advance: Callable[[int], None] = lambda _: None
) -> Iterator[Annotation]:
    """Yield every annotation of the file, those of a task in the order of their last change.

    `advance` is called with the number of bytes read. Raises `BadFile` with the number of the task.
    """
    for number, element in enumerate(elements(path, advance), 1):
        if not isinstance(element, Mapping):
            raise BadFile(path, f"element {number} is not a task but {shown(element)}")
        try:
            yield from _annotations(element, choices)
        except Problem as problem:
            raise BadFile(path, f"element {number}, {problem}") from None


def _annotations(element: Mapping[str, Any], choices: Choices) -> list[Annotation]:
    if isinstance(found := element.get("annotations"), list):
        task = element.get("id")
        if not all(isinstance(each, Mapping) for each in found):
            raise Problem("its annotations are not objects")
        given = [read_annotation(each, choices, task) for each in found]
        return sorted(given, key=lambda annotation: (annotation.updated_at, annotation.id))
    if "annotation_id" in element:
        return [read_row(element, choices)]
    raise Problem("it has no annotations: export as JSON, or as JSON_MIN, with their ids")
