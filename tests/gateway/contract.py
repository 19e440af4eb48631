"""Checks real responses against `/openapi.json`."""

import re
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator


class Contract:
    """The document of a gateway."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.paths = {
            re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))): methods
            for path, methods in document["paths"].items()
        }

    def check(self, method: str, url: str, status: int, kind: str, body: object) -> None:
        """The answer is one that the document names; 404 or 405 where it has no such path."""
        path = urlsplit(url).path
        found = [methods for pattern, methods in self.paths.items() if pattern.fullmatch(path)]
        operation = found[0].get(method.lower()) if found else None
        if operation is None:
            assert status in (204, 401, 403, 404, 405), f"{method} {path} answers {status}"
            return
        response = operation["responses"][str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].split("/")[-1]]
        assert kind in response["content"], f"{method} {path} answers {kind}"
        if kind == "application/json":
            schema = response["content"][kind]["schema"]
            whole = {**schema, "components": self.document["components"]}
            Draft202012Validator(whole).validate(body)
