"""Writes ``answers.json``, what Tianshou answers: ``RLFAST_TIANSHOU_PYTHON=PYTHON python tests/corpus/record.py``."""

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main():
    scripts = sorted(FOLDER.glob("*/*.py"))
    command = [os.environ["RLFAST_TIANSHOU_PYTHON"], FOLDER / "driver.py", "tianshou", *scripts]
    answers = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    failed = {script: answer["error"] for script, answer in answers.items() if "error" in answer}
    if failed:
        sys.exit("\n".join(f"{script}: {lines[-1]}" for script, lines in failed.items()))
    named = {Path(script).relative_to(FOLDER).with_suffix("").as_posix(): answers[script] for script in answers}
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in sorted(named.items())]
    (FOLDER / "answers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
