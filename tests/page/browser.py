"""Debian's Chromium, driven by selenium; nothing is downloaded."""

import shutil
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

SCREENSHOTS = Path(__file__).parents[2] / "results" / "screenshots"  # git ignores it
AUDIT = Path(__file__).with_name("audit.js").read_text()
TEXTS = """
return [...document.querySelectorAll(arguments[0])]
  .map((each) => each.innerText ?? each.textContent)"""  # SVG has no innerText
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
WAIT_SECONDS = 30
PATIENT = (StaleElementReferenceException, AssertionError, ValueError, IndexError)


class Browser:
    """A tab, and what a person does with it."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str, width: int = 1600, theme: str = "light") -> None:
        """Load a page anew, as if for the first time."""
        self.size(width, theme)
        self.driver.get("about:blank")
        self.driver.get(url)

    def size(self, width: int, theme: str = "light", height: int = 1000) -> None:
        """The width of the window and the colours that the user prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click there; again if the page replaced the element just before."""
        self.wait(lambda: self.find(selector).click())

    def text(self, selector: str) -> str:
        """What a person reads there; empty where nothing is."""
        return next(iter(self.texts(selector)), "")

    def texts(self, selector: str) -> list[str]:
        """The same of all that there are."""
        return [str(each).strip() for each in self.run(TEXTS, selector)]

    def run(self, script: str, *arguments: object) -> Any:
        """The value of a script."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Keys for whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector: str) -> None:
        """Press Tab until that has the focus."""
        for _ in range(100):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return
            self.press(Keys.TAB)
        raise AssertionError(f"Tab does not reach {selector}")

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, or an assertion in it does."""

        def holds(_: Chrome) -> bool:
            found = condition()
            return found is None or bool(found)

        WebDriverWait(self.driver, WAIT_SECONDS, 0.1, ignored_exceptions=PATIENT).until(holds)

    def audit(self) -> list[str]:
        """What is not accessible, in words."""
        return [str(problem) for problem in self.run(AUDIT)]

    def complaints(self) -> list[str]:
        """What the console has of errors since the last time: scripts refused, or that failed."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def screenshot(self, name: str) -> None:
        """Leave a picture of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(self.picture())

    def picture(self) -> bytes:
        """The whole page as PNG."""
        width, height = self.run(
            "const p = document.documentElement; return [innerWidth, p.scrollHeight]"
        )
        whole = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        options = {"captureBeyondViewport": True, "clip": whole}
        return b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; skip the test, with the reason, if none is installed."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = program
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options, Service(driver))
    try:
        yield Browser(running)
    finally:
        running.quit()
