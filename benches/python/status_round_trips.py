"""Round trips of terminal_status from the official Python SDK: one line per call, in microseconds.

    status_round_trips.py CALLS SERVER [ARGUMENT...]

The config that the server is given has a command `cat`.
"""

import asyncio
import sys
import time

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main(calls: int, server: str, arguments: list[str]) -> None:
    parameters = StdioServerParameters(command=server, args=arguments)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        # Its output schemas, once: a client that hasn't asked asks within its first call.
        await session.list_tools()
        started = await session.call_tool("terminal_start", {"command_id": "cat"})
        call = {"session_id": started.structured_content["session_id"]}
        for _ in range(calls // 10):
            await session.call_tool("terminal_status", call)
        for _ in range(calls):
            before = time.perf_counter_ns()
            answer = await session.call_tool("terminal_status", call)
            print((time.perf_counter_ns() - before) / 1e3)
            assert not answer.is_error, answer


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
