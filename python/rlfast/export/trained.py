"""Programs of policies and of runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from rlfast._core import __version__
from rlfast.export.program import Choices, Controls, Program, Scale, State
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.export"):
    from gymnasium import spaces
    from gymnasium.vector.utils import create_empty_array

    from rlfast.data.forms import Form
    from rlfast.env.spaces.actions import ranges
    from rlfast.experiment.agents import normalizations, read_agent
    from rlfast.experiment.algorithms import algorithm_of
    from rlfast.policy.native.described import Discrete
    from rlfast.utils.runtime.native import NotNativeError
    from rlfast.utils.runtime.seeding import global_random_state, set_global_random_state

if TYPE_CHECKING:
    import os

    import gymnasium as gym

    from rlfast.policy import BasePolicy
    from rlfast.policy.native.described import Continuous


def program_of(
    policy: BasePolicy, shape: tuple[int, ...] | gym.Space[Any] | Form, *, is_bytes: bool = False
) -> Program:
    """Return the program of a policy, which takes observations as the policy does.

    :param policy: the policy, in evaluation mode and on the CPU. Weights are not copied: write the program before the
        policy learns more.
    :param shape: the space of observations, or the shape of one, which is an array of floats.
    :param is_bytes: whether the numbers of a shape are of uint8, as those of images, which a network may scale.
        Default: False.
    :raises ValueError: if the policy cannot be exported, for the reason in the text.
    """
    name = type(policy).__name__
    try:
        form = form_of(shape) if isinstance(shape, spaces.Space) else Form.given(shape, is_bytes=is_bytes)
        described = policy.described(form)
    except NotNativeError as error:
        raise ValueError(f"{name} cannot be exported: {error}") from error
    if not policy.maps_by_space:
        raise ValueError(f"{name} cannot be exported: it maps actions by a method of its own")
    decision = described.decision
    action = _choices(policy, decision) if isinstance(decision, Discrete) else _controls(policy, decision)
    state = described.state
    about = {"rlfast": __version__, "policy": name, "action_space": str(policy.action_space)}
    return Program(
        form=form,
        places=None,
        scales=(),
        nodes=described.nodes,
        action=action,
        random=described.random,
        state=None if state is None else State(slot=state, size=described.inputs - form.size),
        about=about,
    )


def form_of(space: gym.Space[Any]) -> Form:
    """Return the form of the observations of a space.

    :param space: a Box, Discrete, MultiDiscrete or MultiBinary space, or a Dict of these.
    :raises NotNativeError: observations of the space are no arrays.
    """
    parts = []
    for part in Form.of(create_empty_array(space, 1), batched=True).parts:
        own: Any = space
        for key in part.keys:
            own = own[key]
        parts.append(part._replace(least=int(own.start)) if isinstance(own, spaces.Discrete) else part)
    return Form(tuple(parts))


def _choices(policy: BasePolicy, decision: Discrete) -> Choices:
    shape = policy.action_space.shape or ()
    starts = policy.map_action(np.zeros((1, *shape), np.int64))
    return Choices(
        slot=decision.slot,
        sizes=decision.sizes,
        starts=[int(start) for start in starts.ravel()],
        logits=decision.logits,
        shape=shape,
    )


def _controls(policy: BasePolicy, decision: Continuous) -> Controls:
    space = policy.action_space
    if not isinstance(space, spaces.Box) or space.dtype not in (np.float32, np.float64):
        raise ValueError(f"{type(policy).__name__} cannot be exported: its actions are of {space}, not of a float Box")
    bound = policy.action_bound_method
    limits = None
    if policy.action_scaling or bound:
        low, width = ranges(space)
        limits = (low.ravel().astype(np.float64), np.asarray(space.high, np.float64).ravel())
        if policy.action_scaling and not np.isfinite(width).all():
            raise ValueError(f"{type(policy).__name__} cannot be exported: {space} is too wide")
    return Controls(
        mean=decision.mean,
        deviation=decision.deviation,
        squashed=decision.squashed,
        bound=bound or None,
        stretched=policy.action_scaling,
        range=limits,
        shape=space.shape,
        dtype=cast("Literal['float32', 'float64']", str(space.dtype)),
    )


def program_of_run(
    run_dir: str | os.PathLike[str], *, best: bool = False, device: str | None = "cpu", allow_import: bool = False
) -> Program:
    """Return the program of a run's policy, from the observation of its environment to the action.

    :param run_dir: folder of the run.
    :param best: whether the policy is the one with the best test, and not that of the end of training. Default: False.
    :param device: device of the policy. Default: the CPU, which is the only one that can be exported from.
    :param allow_import: whether modules that the folder names may be imported. Default: False.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run cannot be used, or its policy cannot be exported.
    """
    streams = global_random_state()
    try:
        agent = read_agent(Path(run_dir), best=best, device=device, allow_import=allow_import)
        norms = normalizations(agent)
    finally:
        set_global_random_state(streams)
    config, places = agent.config, agent.places
    raw: Any = config
    if places:
        raw = replace(raw, observe=())
    with closing(agent.declaration.evaluation_envs(raw, 1, None)) as envs:
        space: Any = envs.single_observation_space
    try:
        form = form_of(space)
    except NotNativeError as error:
        raise ValueError(f"{config.env} cannot be exported: its observations are of {space}: {error}") from error
    first = form.parts[0]
    seen = (*first.shape[:-1], len(places)) if places else first.shape
    program = program_of(agent.policy, Form((first._replace(shape=seen),)) if places else form)
    scales = [
        Scale(
            mean=np.broadcast_to(np.asarray(rms.mean, np.float64), seen).ravel(),
            deviation=np.broadcast_to(np.sqrt(np.asarray(rms.var, np.float64) + rms.eps), seen).ravel(),
            limit=float(rms.clip_max) if rms.clip_max else None,
        )
        for rms in (wrapper.obs_rms for wrapper in norms)
        if rms is not None
    ]
    picked = np.arange(int(np.prod(space.shape))).reshape(space.shape)[..., [*places]].ravel() if places else None
    about = {"env": config.env, "algorithm": algorithm_of(config).name, "observation_space": str(space)}
    return replace(
        program,
        form=form,
        places=None if picked is None else [int(place) for place in picked],
        scales=scales,
        about={**program.about, **about},
    )
