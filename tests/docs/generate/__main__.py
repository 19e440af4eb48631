"""Writes every generated page."""

from tests.docs.generate.reference import FOLDER, PAGES

if __name__ == "__main__":
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
        print(f"docs/reference/{name}")
