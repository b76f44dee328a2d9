"""`python -m crux` is `crux`."""

from crux.cli import main

main(prog_name="crux")
