"""`python -m pipeline` is `sbic`."""

from pipeline.cli.main import main

main()
