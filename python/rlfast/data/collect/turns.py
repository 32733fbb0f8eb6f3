"""Collectors that share environments or a buffer take turns.

Episodes that are running when another collector takes its turn cannot go on: the environments have been stepped or
reset meanwhile, or their next row would stand behind rows of other episodes.
"""

from weakref import ReferenceType, WeakKeyDictionary, ref

_last: WeakKeyDictionary[object, ReferenceType[object]] = WeakKeyDictionary()
"""The collector that used environments, or a buffer, last."""


def take_turn(collector: object, *shared: object) -> bool:
    """Note that a collector uses objects.

    :param collector: the collector.
    :param shared: its environments and its buffer.
    :return: whether another collector has used one of them since this one did.
    """
    lost = False
    for one in shared:
        try:
            before = _last.get(one)
        except TypeError:  # of a class without weak references or hashes
            continue
        if before is None or before() is not collector:
            lost |= before is not None
            _last[one] = ref(collector)
    return lost
