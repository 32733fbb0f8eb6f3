"""Settings that lead outside the folder of a run: to code, files and other machines.

A run's ``config.json`` may come from a stranger, so opening a run follows such a setting only if the user has asked for
it: in the call that opens the run, or in a run that they began on this machine, which is recorded in
``$XDG_STATE_HOME/rlfast/asked`` (default ``~/.local/state``). A module counts as asked for only if importing it would
run the same file as then.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rlfast.experiment.config import RunConfig

IN_MEMORY = ("ram", "lz4", "zstd")
"""The values of ``storage`` that are no folder."""


@dataclass(frozen=True, kw_only=True)
class _Lead:
    """A group of settings that lead outside."""

    settings: dict[str, Any]
    names: tuple[str, ...]
    """The names of those that lead outside by themselves."""
    modules: tuple[str, ...] = ()
    """The packages that are imported."""
    complaint: str
    """What would happen, and what to do."""

    @property
    def record(self) -> Path | None:
        """The file that says that the user has asked for it; None without a home directory."""
        key = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()
        folder = _state_folder()
        return None if folder is None else folder / f"{key}.json"


def remember(config: RunConfig) -> None:
    """Records that the user has asked for the settings of a run that lead outside, where there is a home directory.

    :param config: the settings of a run that the user begins.
    """
    for lead in _leads(config):
        path = lead.record
        if path is None:
            return
        content = {"settings": lead.settings, "modules": {name: _file_of(name) for name in lead.modules}}
        with suppress(OSError):  # without the record, the user is asked
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, (json.dumps(content, indent=2) + "\n").encode())
            path.chmod(0o600)


def check_outside(run_dir: Path, config: RunConfig, *, allow: bool, asked: Collection[str] = ()) -> None:
    """Checks that the user has asked for the settings of a run that lead outside its folder.

    :param run_dir: the folder of the run, which may be a stranger's.
    :param config: its settings.
    :param allow: whether the user trusts the folder: then modules are found in the current folder, too, after the place
        where a run of the user's found them. This does not cover other machines.
    :param asked: names of settings that the user has given now.
    :raises ValueError: if the user has not asked for one; the message says what to do.
    """
    for lead in _leads(config, run_dir):
        is_remembered = _is_remembered(lead)  # which also finds its modules, wherever the run is opened
        if not (allow or {*lead.names} <= {*asked} or is_remembered):
            raise ValueError(f"{run_dir / 'config.json'} {lead.complaint}")
    if allow:
        find_here(config.env, config.wrappers)


def check_cluster(run_dir: Path, config: RunConfig, asked: Collection[str]) -> None:
    """Checks that the user has asked for the cluster that a run is spread over: Ray exchanges pickles with it.

    :param run_dir: the folder of the run.
    :param config: its settings.
    :param asked: names of settings that the user has given now.
    :raises ValueError: if not.
    """
    if is_cluster(config.ray) and "ray" not in asked:
        raise ValueError(
            f"{run_dir / 'config.json'} spreads the run over the Ray cluster {config.ray!r}, to which a run connects "
            f"only when it is asked for: --ray {config.ray}, or another address; --ray local starts a new one"
        )


def is_cluster(address: str | None) -> bool:
    """Whether the ``ray`` of settings names a cluster that may belong to others, and not one of the run alone.

    :param address: the setting.
    """
    return address not in (None, "local", "in-process")


def find_here(env: str, wrappers: Sequence[str] = ()) -> None:
    """Lets modules that the user has named be imported from the current folder, which is searched after all others.

    :param env: id of an environment that the user names, or of one in a folder that they trust.
    :param wrappers: the wrappers around it. Default: none.
    """
    for module in _modules_of(env, wrappers):
        here = str(Path.cwd())
        if not sys.flags.safe_path and here not in sys.path and _file_of(module) is None:
            sys.path.append(here)
            importlib.invalidate_caches()


def _modules_of(env: str, wrappers: Sequence[str]) -> list[str]:
    """Returns the top-level modules that making the environment of a run imports by name."""
    names = [env.rpartition(":")[0], *(wrapper.partition(":")[0] for wrapper in wrappers)]
    return [*dict.fromkeys(name.partition(".")[0] for name in names if name)]


def _leads(config: RunConfig, run_dir: Path | None = None) -> Iterator[_Lead]:
    modules = _modules_of(config.env, config.wrappers)
    if modules or config.env_kwargs:
        settings = {"env": config.env, "env_kwargs": config.env_kwargs, "wrappers": [*config.wrappers]}
        leads = {"env": ":" in config.env, "env_kwargs": config.env_kwargs, "wrappers": config.wrappers}
        names = tuple(name for name, value in leads.items() if value)
        what = f"names the environment {config.env!r}"
        if modules:
            what += f", and to make it the module {' and '.join(map(repr, modules))} would be imported, which runs it"
        else:
            what += f" with arguments of its own, {json.dumps(config.env_kwargs)}"
        trust = "if you trust the folder, say --allow-import, or allow_import=True"
        yield _Lead(settings=settings, names=names, modules=tuple(modules), complaint=f"{what}: {trust}")
    for name, verb in {"storage": "keeps rows in", "data": "learns from"}.items():
        value = getattr(config, name, None)
        if value is None or value in IN_MEMORY:
            continue
        path = Path(value).expanduser().resolve()
        if run_dir is None or not path.is_relative_to(run_dir.resolve()):
            text = f"{verb} {value}, which is outside the run's folder: name it again, --{name} {value}"
            yield _Lead(settings={name: str(path)}, names=(name,), complaint=text)


def _is_remembered(lead: _Lead) -> bool:
    path = lead.record
    try:
        if path is None or not _is_ours(path):
            return False
        content = json.loads(path.read_text())
        files = {name: content["modules"][name] for name in lead.modules}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return all(_finds(name, known) for name, known in files.items())


def _finds(module: str, known: object) -> bool:
    """Whether importing a module runs the file that was recorded; its folder is searched last."""
    if not isinstance(known, dict) or not isinstance(known.get("root"), str):
        return False
    if _file_of(module) is None and known["root"] not in sys.path:
        sys.path.append(known["root"])
        importlib.invalidate_caches()
        if _file_of(module) != known:
            sys.path.remove(known["root"])
    return _file_of(module) == known


def _file_of(module: str) -> dict[str, Any] | None:
    """Returns the file of a top-level module, the folder that holds it, and who owns it, without importing it."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = [*(spec.submodule_search_locations or ())]
    file = spec.origin if spec.has_location and spec.origin else places[0] if places else None
    if file is None:  # built into the interpreter
        return {"file": None, "root": "", "owner": 0}
    path = Path(file).resolve()
    root = path.parent.parent if places and spec.has_location else path.parent
    return {"file": str(path), "root": str(root), "owner": path.stat().st_uid if path.exists() else 0}


def _is_ours(path: Path) -> bool:
    """Whether a file is the user's own, and nobody else can write it."""
    status = path.stat()
    return os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _state_folder() -> Path | None:
    if given := os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME"):
        return Path(given, "rlfast", "asked")
    try:
        return Path.home() / ".local" / "state" / "rlfast" / "asked"
    except RuntimeError:
        return None
