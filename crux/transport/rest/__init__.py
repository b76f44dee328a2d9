"""The HTTP API (port 14800): facts, session states, and how the daemon is."""

from crux.transport.rest.app import correlated, create_app
from crux.transport.rest.problems import render_problem
from crux.transport.rest.route import Api

__all__ = ["Api", "correlated", "create_app", "render_problem"]
