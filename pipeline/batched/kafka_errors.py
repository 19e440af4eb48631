"""Counts the errors of Kafka's clients from which they recover by themselves.

aiokafka 0.14 retries, and reports such an error only in its log.
"""

import logging

CLIENTS = ("consumer", "producer", "connection")


class KafkaErrors(logging.Handler):
    """Counts the warnings and errors that aiokafka logs, by the part that logs them.

    >>> errors = KafkaErrors()
    >>> _ = errors.handle(logging.makeLogRecord({"name": "aiokafka.producer.sender"}))
    >>> errors.counts
    {'consumer': 0, 'producer': 1, 'connection': 0}
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts = dict.fromkeys(CLIENTS, 0)

    def watch(self) -> None:
        """Count from now on."""
        logging.getLogger("aiokafka").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        part = record.name.removeprefix("aiokafka.").partition(".")[0]
        self.counts[part if part in self.counts else "connection"] += 1
