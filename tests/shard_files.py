"""Shards as RL Unplugged's, written by hand, so that any part of them can be wrong."""

import gzip
import struct
import zlib

import numpy as np

TABLE = [0] * 256
for _k in range(256):
    _value = _k
    for _ in range(8):
        _value = _value >> 1 ^ 0x82F63B78 * (_value & 1)
    TABLE[_k] = _value


def checksum(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", checksum(length)) + data + struct.pack("<I", checksum(data))


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(*fields):
    return b"".join(varint(number << 3 | 2) + varint(len(data)) + data for number, data in fields)


def feature(value):
    if isinstance(value, list):
        return message((1, message(*[(1, one) for one in value])))
    if isinstance(value, float):
        return message((2, message((1, struct.pack("<f", value)))))
    return message((3, message((1, varint(value)))))


def example(features):
    entries = [(1, message((1, name.encode()), (2, feature(value)))) for name, value in features.items()]
    return message((1, message(*entries)))


def png(image, bits=8, colour=0):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def image(number, size=(84, 84)):
    return np.random.default_rng(number).integers(256, size=size).astype(np.uint8)


def row(step, episode=7, *, last=False, act=None, numbers=None, **changes):
    """Features of the step of an episode; image ``100 * episode + t`` is that of step ``t``."""
    numbers = numbers or [100 * episode + step + k for k in range(5)]
    files = [png(image(number)) for number in numbers]
    act = step % 3 if act is None else act
    features = {"o_t": files[:4], "o_tp1": files[1:], "a_t": act, "a_tp1": (step + 1) % 3, "r_t": float(step)}
    return features | {"d_t": float(not last), "episode_id": episode, "episode_return": 2.5} | changes


def shard(rows):
    return b"".join(record(example(one)) for one in rows)


def write(path, rows):
    path.write_bytes(gzip.compress(shard(rows), 1))
    return path
