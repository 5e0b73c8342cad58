"""A client of HermitMQ's protocol 1.1 in a page of Python, written from docs/PROTOCOL.md alone.

    producer = Producer("localhost:9092", "orders")
    offset = producer.send(b"a cup", key=b"customer-7")
    for record in Consumer("localhost:9092", "orders", group="billing"):
        print(record.offset, record.payload)
        record.commit()
"""

import socket
import struct
import time
from collections import namedtuple

HEADER = struct.Struct(">BQQIII")  # magic, timestamp, offset, key size, payload size, record count
ANSWER = struct.Struct(">BQ")  # status, value
Record = namedtuple("Record", "offset timestamp key payload next_offset commit")


class Refused(Exception):
    """What the broker answers that does not do what was asked: status, value, and a message for people."""


class Connection:
    def __init__(self, broker, role, fields):
        host, port = broker.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        body = b"".join(struct.pack(">BH", tag, len(value)) + value for tag, value in fields if value is not None)
        self.socket.sendall(struct.pack(">BH", role, len(body)) + body)
        self.value = self.answer(lambda status: status != 0)

    def read(self, size):
        data = self.stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data

    def answer(self, has_message):
        status, value = ANSWER.unpack(self.read(ANSWER.size))
        if status != 0:
            message = self.read(*struct.unpack(">H", self.read(2))) if has_message(status) else b""
            raise Refused(status, value, message.decode())
        return value


class Producer(Connection):
    def __init__(self, broker, topic, partition=0, token=None):
        super().__init__(broker, 0x11, [(1, topic.encode()), (2, struct.pack(">I", partition)), (5, token)])

    def write(self, payload, key=b"", timestamp=None):
        """Sends a record without waiting: read one answer with `acked` for each, in order."""
        header = HEADER.pack(1, timestamp or time.time_ns(), 0, len(key), len(payload), 1)
        self.socket.sendall(header + key + payload)

    def acked(self):
        return self.answer(lambda status: status < 0xF0)  # the others pass, and the connection goes on

    def send(self, payload, key=b"", timestamp=None):
        self.write(payload, key, timestamp)
        return self.acked()


class Consumer(Connection):
    def __init__(self, broker, topic, partition=0, group=None, until_end=False, token=None):
        fields = [(1, topic.encode()), (2, struct.pack(">I", partition)), (3, group and group.encode())]
        super().__init__(broker, 0x12, fields + [(5, token), (8, b"\1" if until_end else None)])

    def commit(self, offset):
        self.socket.sendall(struct.pack(">Q", offset))

    def __iter__(self):
        while self.stream.peek(1):  # an end of the connection between two frames is an orderly one
            magic, timestamp, offset, key_size, size, count = HEADER.unpack(self.read(HEADER.size))
            key, payload = self.read(key_size), self.read(size)
            if magic == 0x10:  # between frames the broker may say something: a status and a message
                if payload[0] not in (0x00, 0x09, 0x0D):  # still there; went on at `offset`
                    raise Refused(payload[0], offset, payload[1:].decode())
                continue
            lines = payload.split(b"\n")[:-1] if count > 1 and payload.endswith(b"\n") else []
            end = offset + max(count, 1)
            records = enumerate(lines, offset) if len(lines) == count else [(offset, payload)]
            for at, record in records:
                after = at + 1 if len(lines) == count else end
                yield Record(at, timestamp, key, record, after, lambda after=after: self.commit(after))
