"""Commands to suggest to the user, for the same project on the same broker."""

from shlex import quote

from pipeline.settings import SPECS, Settings

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def command(settings: Settings, words: str) -> str:
    """An `sbic` command with the flags that select this project.

    >>> command(Settings(), "run")
    'sbic run'
    >>> command(Settings(prefix="birds", broker="kafka://127.0.0.1:19092"), "run")
    'sbic run --prefix birds --broker kafka://127.0.0.1:19092'
    """
    flags = [
        f" --{name} {quote(getattr(settings, name))}"
        for name in ("prefix", "broker")
        if getattr(settings, name) != SPECS[name].default
    ]
    return f"sbic {words}{''.join(flags)}"


def start_broker(settings: Settings) -> str | None:
    """The command that starts a broker at this address, if that is on this machine.

    >>> start_broker(Settings()), start_broker(Settings(broker="kafka://localhost:19092"))
    ('sbic broker', 'sbic broker --port 19092')
    >>> start_broker(Settings(broker="kafka://one:9092,two:9092")) is None
    True
    """
    host, _, port = settings.bootstrap_servers[0].rpartition(":")
    if len(settings.bootstrap_servers) > 1 or host not in LOOPBACK:
        return None
    return "sbic broker" if port == "9092" else f"sbic broker --port {port}"
