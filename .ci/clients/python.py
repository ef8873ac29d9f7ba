"""The official Python SDK against the binary: python.py BINARY. A line for each mode; fails with the first that fails."""

import asyncio
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TOOLS = ["terminal_start", "terminal_read", "terminal_write", "terminal_status", "terminal_terminate"]


def texts(records):
    """What came on each stream."""
    return {name: "".join(r["text"] for r in records if r["stream"] == name) for name in ("stdout", "stderr")}


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def read_to_the_end(client, session_id):
    """All output of a session, in pages smaller than it is."""
    records, cursor, pages = [], 0, 0
    while True:
        page = await call(client, "terminal_read", session_id=session_id, cursor=cursor, max_bytes=256, wait_ms=2000)
        records += page["records"]
        cursor = page["next_cursor"]
        pages += 1
        if not page["has_more"] and (page["output_complete"] or page["output_incomplete"]):
            return records, page, pages


async def scenario(binary, mode, revision):
    async with Client(stdio_client(StdioServerParameters(command=binary, args=["stdio"])), mode=mode) as client:
        assert client.protocol_version == revision, client.protocol_version
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS

        started = await call(client, "terminal_start", command_id="stream", wait_ms=30000)
        assert (started["status"], started["exit_code"]) == ("EXITED", 0), started
        assert started["output_complete"] and started["output"]["omitted"] is None, started
        output = texts(started["output"]["records"])
        assert [text.count("\n") for text in output.values()] == [20, 20], output
        records, page, pages = await read_to_the_end(client, started["session_id"])
        assert texts(records) == output and page["status"] == "EXITED" and pages > 1, (records, page)

        refused = await client.call_tool("terminal_start", {"command_id": "unknown"})
        assert refused.is_error and refused.structured_content["ok"] is False, refused
        error = refused.structured_content["error"]
        assert error["code"] == "COMMAND_NOT_FOUND" and error["message"], error
    print(f"python SDK, {mode} ({revision}): ok, {pages} pages")


async def main(binary):
    for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]:
        await scenario(binary, mode, revision)


asyncio.run(main(sys.argv[1]))
