"""A session of aiorpcX, the library under Electrum and ElectrumX, told over its standard input what to ask.

In:     the server's port and the protocol's version as arguments; lines {"id", "method", "params"}.
Out:    lines {"id", "result"} or {"id", "error"}, and {"told", "params"} for whatever the server sends by itself.
Fails:  the process ends where the connection cannot be made.
"""

import asyncio
import json
import sys

import aiorpcx


def say(line):
    print(json.dumps(line), flush=True)


class Session(aiorpcx.RPCSession):
    """Tells of every request and notification of the server; answers its pings as the protocol says."""

    async def handle_request(self, request):
        say({"told": request.method, "params": request.args})
        if request.method == "server.ping":
            return {"data": "0" * (request.args[0] if request.args else 0)}
        return None


async def answer(session, asked):
    try:
        if asked["method"] == "each":
            name, each = asked["params"]
            async with session.send_batch(raise_errors=True) as batch:
                for params in each:
                    batch.add_request(name, [params])
            result = batch.results
        else:
            result = await session.send_request(asked["method"], asked["params"])
        say({"id": asked["id"], "result": result})
    except (aiorpcx.RPCError, aiorpcx.ProtocolError) as error:
        say({"id": asked["id"], "error": error.message})


async def main():
    port, version = int(sys.argv[1]), sys.argv[2]
    async with aiorpcx.connect_rs("127.0.0.1", port, session_factory=Session) as session:
        say({"id": 0, "result": await session.send_request("server.version", ["aiorpcX", ["1.4", version]])})
        loop, under_way = asyncio.get_running_loop(), set()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            task = asyncio.create_task(answer(session, json.loads(line)))
            under_way.add(task)
            task.add_done_callback(under_way.discard)


asyncio.run(main())
