"""Log messages of scripts: run_main, files, memory, tags."""

import json
import os
import tempfile
import logging as standard

from tianshou.utils import logging
from tianshou.utils.logging import FileLoggerContext, run_main, set_numerical_fields_to_precision
from tianshou.utils.string import TagBuilder, ToStringMixin, dict_string, list_string, pretty_string_repr

here = os.getcwd()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

log = logging.getLogger("script")


class Settings(ToStringMixin):
    def __init__(self):
        self.lr, self.sizes, self._seed = 0.1, [64, 64], 3

    def _tostring_exclude_private(self):
        return True


def main():
    logging.add_memory_logger()
    with FileLoggerContext("run.log"):
        log.info("hello %s", Settings())
    return 5


root = standard.getLogger()
handlers = list(root.handlers)
result = run_main(main, level=logging.INFO)
failed = run_main(lambda: 1 / 0, level=logging.INFO)
for handler in list(root.handlers):
    root.removeHandler(handler)
for handler in handlers:
    root.addHandler(handler)
print(
    json.dumps(
        {
            "result": [result, failed],
            "file": sum("hello Settings[lr=0.1, sizes=[64, 64]]" in line for line in open("run.log")),
            "memory": logging.get_memory_log().count("hello"),
            "text": [str(Settings()), pretty_string_repr("A[b=1, c=D[e=2, f=3]]"), dict_string({"a": [1]}), list_string("xy", quote="'")],
            "tag": TagBuilder("dqn").with_conditional(True, "per").with_alternative(False, "a", "b").build(),
            "rounded": set_numerical_fields_to_precision({"loss": 0.123456, "n": 2}),
            "date": len(logging.datetime_tag()),
        }
    )
)
os.chdir(here)
folder.cleanup()
