"""A TCP proxy that cuts connections: `python proxy.py LISTEN_PORT TARGET_PORT CUTS_PER_1000_REQUESTS [SEED]`.

It cuts in one of three ways, so that a client cannot know whether its request was carried out: before the request reaches
the server, after it did and before the reply, and in the middle of the reply. Handshakes and unrequested replies
(an exhausting `hello`) pass. Prints the number of cuts when it is ended.
"""

import asyncio
import random
import signal
import struct
import sys

HANDSHAKES = (b"hello\0", b"isMaster\0", b"ismaster\0")


class Proxy:
    def __init__(self, target, cuts_per_1000, seed):
        self.target, self.share, self.random, self.cuts = target, cuts_per_1000 / 1000, random.Random(seed), 0

    async def serve(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        way = Way(self)
        pumps = [asyncio.ensure_future(way.requests(reader, server_writer)), asyncio.ensure_future(way.replies(server_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            writer.close()
            server_writer.close()

    def choose(self, request):
        if any(name in request[:64] for name in HANDSHAKES) or self.random.random() >= self.share:
            return None
        self.cuts += 1
        return self.random.choice(("request", "reply", "half"))


class Way:
    """One connection. A pump that ends ends the connection."""

    def __init__(self, proxy):
        self.proxy, self.cut = proxy, None

    async def requests(self, reader, server):
        while True:
            request = await frame(reader)
            self.cut = self.proxy.choose(request)
            if self.cut == "request":
                return
            server.write(request)
            await server.drain()

    async def replies(self, server, writer):
        while True:
            reply = await frame(server)
            if self.cut == "reply":
                return
            writer.write(reply[: len(reply) // 2] if self.cut else reply)
            await writer.drain()
            if self.cut:
                return


async def frame(reader):
    """One message of the wire protocol: its first four bytes are its length."""
    head = await reader.readexactly(4)
    (length,) = struct.unpack("<i", head)
    return head + await reader.readexactly(length - 4)


async def main(listen, target, cuts_per_1000, seed=1):
    proxy = Proxy(int(target), float(cuts_per_1000), int(seed))
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", int(listen))
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()
    print("cuts", proxy.cuts, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
