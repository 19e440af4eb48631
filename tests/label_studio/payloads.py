"""Payloads as Label Studio sends and exports them, reduced to what is read, and some more."""

from typing import Any

PROJECT = {"id": 2, "title": "Pets", "label_config": "<View>...</View>", "maximum_annotations": 3}


def choice(name: str, control: str = "pet") -> dict[str, Any]:
    return {
        "id": "WArqkkifYE",
        "from_name": control,
        "to_name": "image",
        "type": "choices",
        "origin": "manual",
        "value": {"choices": [name]},
    }


def annotation(
    name: int = 17, *choices: str, task: object = 19, worker: object = 1, second: int = 48
) -> dict[str, Any]:
    time = f"2021-08-17T13:{second // 60:02}:{second % 60:02}.536303Z"
    return {
        "id": name,
        "result": [choice(chosen) for chosen in choices],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2021-08-17T13:00:00.536303Z",
        "updated_at": time,
        "lead_time": 37.13,
        "prediction": {},
        "result_count": 1,
        "task": task,
        "completed_by": worker,
    }


def skipped(name: int = 17, **fields: Any) -> dict[str, Any]:
    return annotation(name, **fields) | {"was_cancelled": True}


def webhook(action: str, given: Any) -> dict[str, Any]:
    return {
        "action": action,
        "annotation": given,
        "task": {"id": 19, "data": {"image": "1.jpg"}},
        "project": PROJECT,
    }


def deletion(*ids: int) -> dict[str, Any]:
    return {
        "action": "ANNOTATIONS_DELETED",
        "annotations": [{"id": name} for name in ids],
        "project": PROJECT,
    }
