"""OAUTHBEARER tokens, read from a file or a command for every new connection."""

import asyncio
import shlex
from pathlib import Path

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from pipeline.security.security import TOKEN_COMMAND, TOKEN_FILE, Security

COMMAND_SECONDS = 10


class NoToken(KafkaError):  # type: ignore[misc]
    """There is no token to send; clients retry, as they do when a broker is unreachable."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives aiokafka the current token; the file or the command has to keep it fresh."""

    def __init__(self, security: Security) -> None:
        self._security = security

    async def token(self) -> str:
        """The token; raises `NoToken` with the reason, and never with the token itself."""
        command = self._security.token_command
        text = await (self._printed(command) if command else asyncio.to_thread(self._read))
        token = text.strip()
        source = TOKEN_COMMAND if command else TOKEN_FILE
        if not token:
            raise NoToken(f"{source} gives no token: it is empty")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise NoToken(f"{source} must give a token and nothing else")
        return token

    def _read(self) -> str:
        path = self._security.token_file
        assert path is not None
        try:
            return Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise NoToken(f"{TOKEN_FILE}: cannot read {path}: {why}") from None

    async def _printed(self, command: str) -> str:
        """What the command prints; its error output may contain a secret and is dropped."""
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise NoToken(f"{TOKEN_COMMAND} cannot be run: {why}") from None
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                printed, _ = await process.communicate()
        except TimeoutError:
            raise NoToken(f"{TOKEN_COMMAND} printed no token in {COMMAND_SECONDS} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise NoToken(f"{TOKEN_COMMAND} ended with status {process.returncode}")
        return printed.decode(errors="replace")
