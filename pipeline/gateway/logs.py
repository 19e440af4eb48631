"""What a gateway says on standard error."""

import logging


def set_up_logging() -> None:
    """Say what happens; aiokafka's own lines would repeat it."""
    logging.basicConfig(
        force=True,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("sbic").setLevel(logging.INFO)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
