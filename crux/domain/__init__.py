"""Pure rules and records: no I/O, no clock, no event loop."""
