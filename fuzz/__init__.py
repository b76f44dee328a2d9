"""Differential fuzzing: what Crux reads, held against what an independent implementation reads of the same bytes."""
