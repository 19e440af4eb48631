"""`python -m sbic` is `sbic`."""

from sbic.commands.main import main

main()
