"""A TCP proxy that cuts connections: `python proxy.py LISTEN_PORT TARGET_PORT CUTS_PER_1000_REPLIES [SEED]`.

It cuts in one of three ways, so that a client cannot know whether its request was carried out: before the request reaches
the server, after it did and before the reply, and in the middle of the reply. Prints the number of cuts when it is ended.
"""

import asyncio
import random
import signal
import struct
import sys


class Proxy:
    def __init__(self, target, cuts_per_1000, seed):
        self.target, self.share, self.random, self.cuts = target, cuts_per_1000 / 1000, random.Random(seed), 0

    async def serve(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        try:
            while True:
                request = await frame(reader)
                cut = self.random.choice(("request", "reply", "half")) if self.random.random() < self.share else None
                if cut == "request":
                    break
                server_writer.write(request)
                await server_writer.drain()
                reply = await frame(server_reader)
                if cut == "half":
                    writer.write(reply[: len(reply) // 2])
                    await writer.drain()
                if cut:
                    break
                writer.write(reply)
                await writer.drain()
            self.cuts += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            server_writer.close()


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
