"""Makes virtual environments for libraries that cannot share one: ``python bench/environments.py FOLDER [NAME ...]``.

Torch, which takes several GB, is installed in one of them and shared with the others. ``RLFAST_PEERS=FOLDER pytest
bench`` then uses them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORCH = os.environ.get("TORCH", "torch")
ENVIRONMENTS = {
    "modern": [
        "numpy>=2",
        "gymnasium[mujoco]==1.4.0",
        "stable-baselines3==2.9.2",
        "torchrl==0.14.1",
        "tensordict",
        "cpprb==11.0.0",
        "envpool==1.2.5",
        "ale-py",
        "opencv-python-headless",
    ],
    "tianshou1": ["numpy==1.24.4", "tianshou==1.0.0", "pygame", "envpool==1.2.5"],
    "tianshou2": ["numpy>=2", "tianshou==2.0.1"],
    "tianshou12": ["tianshou==1.2.0"],
    "d3rlpy": ["d3rlpy==2.8.1", "minari[create,hdf5]", "pillow"],
    "rlox": ["numpy>=2", "gymnasium", "rlox==1.2.0"],
}


def python(folder: Path, name: str) -> str:
    return str(folder / name / "bin" / "python")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def site_packages(interpreter: str) -> Path:
    return Path(run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))


def make(folder: Path, name: str, requirements: list[str]) -> None:
    """Makes a virtual environment that also finds the packages of the one called ``torch``, after its own."""
    run(sys.executable, "-m", "venv", str(folder / name))
    if name != "torch":
        lent = site_packages(python(folder, "torch"))
        (site_packages(python(folder, name)) / "torch.pth").write_text(f"{lent}\n")
    run(python(folder, name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)


def main() -> None:
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(ENVIRONMENTS):
        sys.exit(f"{__doc__}\nNAME is one of: {', '.join(ENVIRONMENTS)}")
    folder = Path(sys.argv[1]).resolve()
    if not Path(python(folder, "torch")).exists():
        make(folder, "torch", [TORCH])
    for name in sys.argv[2:] or ENVIRONMENTS:
        make(folder, name, ENVIRONMENTS[name])


if __name__ == "__main__":
    main()
