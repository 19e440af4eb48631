"""Logging of a gateway, to standard error."""

import logging


def set_up_logging() -> None:
    """Log the gateway's own messages; aiokafka's would repeat them."""
    logging.basicConfig(
        force=True,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("sbic").setLevel(logging.INFO)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
