"""Prints the reference page: `python -m crux.config > docs/configuration.md`."""

import sys

from crux.config.reference import reference_markdown

sys.stdout.write(reference_markdown())
