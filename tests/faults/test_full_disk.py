"""A disk that takes no more: the write fails clearly, reads go on, and writing resumes by itself.

The limit is the operating system's own, on the size of a file (RLIMIT_FSIZE), set from outside on the running daemon.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import httpx
import pytest

from tests.daemons import Daemon
from tests.serving import tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is Linux's")

# Less than any file of the daemon has: nothing more can be written, to its log neither.
NO_ROOM_BYTES = 16
UNLIMITED = resource.RLIM_INFINITY


async def test_a_full_disk_refuses_writes_serves_reads_and_heals(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:

            async def store(key: str, value: str) -> dict[str, object]:
                return await tool(client, daemon.mcp, "store_fact", entity="a", key=key, value=value)

            assert "result" in await store("before", "kept")
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (NO_ROOM_BYTES, UNLIMITED))
            refused = await store("large", "x" * 500_000)
            error = refused["error"]
            assert isinstance(error, dict)
            assert error["code"] == -32603
            assert "nothing of this write was kept" in error["message"]
            unready = await client.get(f"{daemon.http}/readyz")
            assert unready.status_code == 503
            assert unready.json()["checks"][0]["name"] == "storage_writes"
            assert "error" in await store("small", "no room either")
            found = await tool(client, daemon.mcp, "query_facts", entity="a")
            assert "kept" in str(found)
            assert "xxx" not in str(found)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
            assert (await client.get(f"{daemon.http}/readyz")).status_code == 200
            assert "result" in await store("large", "x" * 500_000)
        daemon.restart()
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            assert "xxx" in str(await tool(client, daemon.mcp, "query_facts", query="large"))
