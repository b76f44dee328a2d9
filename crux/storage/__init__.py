"""The engine under the FactStore: embedded SQLite behind a narrow interface."""
