"""A training step of a device, from the gradient of a shard, and compiled blocks of steps."""

import functools
import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from ebmjax._axes import num_members
from ebmjax._checks import leading_size, trim
from ebmjax._phases import phase
from ebmjax._precision import at_least_float32
from ebmjax.training._sharding import EVERYWHERE, OVER_SHARDS, STATE_SPECS, replicate_arrays
from ebmjax.training._state import SlotWrite, TrainState, apply_writes
from ebmjax.training._stops import CAUSES
from ebmjax.types import Key, Metrics, PyTree

GradientFn = Callable[..., tuple[PyTree, PyTree, Metrics]]
"""``gradient_fn(key, params, carry, batch) -> (gradients, carry, metrics)`` of one logical shard.

``carry`` is this shard's part of ``TrainState.carry``. The returned one is like it and may hold a
``SlotWrite`` in place of a large array. ``metrics`` holds at least "loss". Of a step with numbers,
these are its fifth argument. If the function has an attribute ``check_data``, ``fit`` calls
``check_data(params, carry, data)`` before it compiles anything, with all data and the shapes of the
others. It raises if the data do not fit the model.
"""

TrainStep = Callable[..., tuple[TrainState, Metrics]]
"""``train_step(key, state, batch) -> (state, metrics)``, pure; see ``make_train_step``."""


DETERMINISTIC = "xla_gpu_deterministic_ops"
"""Without it, a GPU adds some gradients in an order that changes from call to call."""


def make_train_step(
    gradient_fn: GradientFn,
    optimizer: optax.GradientTransformation | Callable[[PyTree], optax.GradientTransformation],
    *,
    gradient_metrics_fn: Callable[[PyTree], Metrics] = lambda gradients: {},
    max_abs_loss: float = math.inf,
    hold_fn: Callable[[Metrics], jax.Array] | None = None,
    axis_name: str | None = "data",
) -> TrainStep:
    """Returns a pure, unjitted step: averages the shards' gradients, then updates once.

    The step is one device's work. Batches are split into logical shards, whose number does not
    depend on the devices. A device vmaps over its shards, each with its key, and one mean over the
    mesh (a single all-reduce) joins gradients and metrics. So the trajectory is the same on any
    number of devices, up to the rounding of that mean.

    A step whose loss, gradient norm or new parameters are not finite, or whose loss exceeds
    ``max_abs_loss``, only changes the counters.

    Args:
      gradient_fn: see ``GradientFn``. It may use the axis name "shard" (and ``axis_name``) for
        collectives across shards.
      optimizer: any optax transformation that needs only gradients, parameters, ``value=`` (the
        averaged loss) and ``grad=`` (the averaged gradients). ``reduce_on_plateau`` works; a line
        search (``optax.lbfgs`` by default) does not. A function makes it of
        ``numbers["optimizer"]``.
      gradient_metrics_fn: function from averaged gradients to more metrics.
      max_abs_loss: a loss beyond it, of either sign, counts as diverged.
      hold_fn: function from averaged metrics to a scalar bool; true keeps parameters and optimiser
        for this step, while the carry (chains) moves on. Use it for steps that teach nothing but
        whose small gradients Adam would enlarge, such as the robust objective's if no negative
        competes (its paper, appendix H).
      axis_name: name of the mesh axis that the step runs under (``fit``, ``jax.shard_map``,
        ``jax.pmap``); None for none.

    Returns:
      ``train_step(key, state, batch, numbers=None)``. The key is the same on every device. Every
      leaf of ``batch`` has shape (shards of this device, examples of a shard, ...). ``numbers`` are
      a PyTree, such as ``ebmjax.learning.numbers_of`` makes: a program of the step takes them as an
      argument, so it serves all values, and ``vmap`` trains with several. Metrics are those of
      ``gradient_fn`` averaged over all shards, "gradient_norm" (float32 or wider), "skipped",
      "consecutive_skipped", "skip_cause" and, with ``hold_fn``, "is_held" (0 or 1). "skip_cause" is
      0 if the step was taken; 1, 2 or 4 if the loss, the gradient or the new parameters were not
      finite; 3 if the loss exceeded ``max_abs_loss``.
    """

    def train_step(
        key: Key, state: TrainState, batch: PyTree, numbers: PyTree = None
    ) -> tuple[TrainState, Metrics]:
        num_local = leading_size("batch", batch)
        is_one = num_members(axis_name) == 1
        first = 0 if is_one else jax.lax.axis_index(axis_name) * num_local
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, first + jnp.arange(num_local))
        given = () if numbers is None else (numbers,)
        of_shards = jax.vmap(
            gradient_fn, in_axes=(0, None, 0, 0, None)[: 4 + len(given)], axis_name="shard"
        )
        returned = of_shards(keys, state.params, state.carry, batch, *given)
        gradients, carry, metrics = _check_returned(returned, state.params, state.carry)
        means = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), (gradients, metrics))
        if axis_name is not None:  # all leaves at once, as one vector in one message
            vector, unravel = ravel_pytree(means)
            means = unravel(jax.lax.pmean(vector, axis_name))
        gradients, metrics = means
        gradient_norm = optax.tree.norm(at_least_float32(gradients))

        of_step = (numbers or {}).get("optimizer")
        chosen = optimizer(of_step) if callable(optimizer) else optimizer
        updates, opt_state = optax.with_extra_args_support(chosen).update(
            gradients, state.opt_state, state.params, value=metrics["loss"], grad=gradients
        )
        params = optax.apply_updates(state.params, updates)
        are_finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(params)]
        reasons = [  # in the order of ``CAUSES``
            ~jnp.isfinite(metrics["loss"]),
            ~jnp.isfinite(gradient_norm),
            jnp.abs(metrics["loss"]) > max_abs_loss,
            ~jnp.all(jnp.stack(are_finite)),
        ]
        cause = jnp.select(reasons, [jnp.int32(number) for number in CAUSES], jnp.int32(0))
        is_sound = cause == 0
        is_held = jnp.asarray(False if hold_fn is None else hold_fn(metrics))
        is_taken = is_sound & ~is_held
        params, opt_state = jax.tree.map(
            partial(jnp.where, is_taken), (params, opt_state), (state.params, state.opt_state)
        )
        is_kept = jnp.broadcast_to(is_sound, num_local)
        carry = jax.vmap(apply_writes)(state.carry, carry, is_kept)
        skipped = state.skipped + ~is_sound
        consecutive_skipped = jnp.where(is_sound, 0, state.consecutive_skipped + 1)
        metrics = {
            **metrics,
            **gradient_metrics_fn(gradients),
            "gradient_norm": gradient_norm,
            **({} if hold_fn is None else {"is_held": is_held.astype(jnp.float32)}),
            "skipped": skipped,
            "consecutive_skipped": consecutive_skipped,
            "skip_cause": cause,
        }
        state = TrainState(state.step + 1, params, opt_state, carry, skipped, consecutive_skipped)
        return state, metrics

    check_data = getattr(gradient_fn, "check_data", None)
    train_step.check_data = check_data  # pyright: ignore[reportFunctionMemberAccess]
    return train_step


def _check_returned(returned: Any, params: PyTree, carry: PyTree) -> tuple[PyTree, PyTree, Metrics]:
    """Returns the checked (gradients, carry, metrics) of all shards of a device."""
    if not isinstance(returned, tuple) or len(returned) != 3:
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(
            f"gradient_fn must return a tuple (gradients, carry, metrics), got {got}. Without "
            "chains return the carry that came in."
        )
    gradients, changed, metrics = returned
    alike = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *jnp.shape(x)), x.dtype), params)
    _check_same("gradients", gradients, "params", alike)
    _check_same("carry", changed, "TrainState.carry of one shard", carry)
    loss = metrics.get("loss") if isinstance(metrics, Mapping) else None
    if loss is None or loss.shape[1:] or jnp.iscomplexobj(loss):
        got = jax.tree.map(lambda leaf: f"{leaf.dtype}{leaf.shape[1:]}", metrics)
        raise ValueError(
            'metrics of gradient_fn must be a dictionary with a scalar, real "loss", got '
            f"{trim(got)}."
        )
    return gradients, changed, metrics


def _check_same(name: str, ours: PyTree, like: str, theirs: PyTree) -> None:
    """Raises ValueError unless both have the same leaves, apart from their axis of shards.

    The dtypes of gradients may be other floating-point ones.
    """
    leaves_of = partial(
        jax.tree_util.tree_leaves_with_path, is_leaf=lambda node: isinstance(node, SlotWrite)
    )
    found, wanted = (
        {jax.tree_util.keystr(path): leaf for path, leaf in leaves_of(tree)}
        for tree in (ours, theirs)
    )
    for path in sorted(found.keys() | wanted.keys()):
        new, texts = found.get(path), []
        for leaf in (new, wanted.get(path)):
            if leaf is None:
                texts.append("missing")
            elif isinstance(new, SlotWrite):
                texts.append(f"rows{(new.values if leaf is new else leaf).shape[2:]}")
            else:
                is_any = name == "gradients" and jnp.issubdtype(leaf.dtype, jnp.floating)
                texts.append(f"{'float' if is_any else leaf.dtype}{leaf.shape[1:]}")
        mine, other = texts
        if mine != other:
            raise ValueError(
                f"{name}{path} of gradient_fn must be like {like}{path}, {other}; got {mine}."
            )


@functools.lru_cache(maxsize=1)  # check_fits and then fit ask for the same: one trace for both
def make_block(train_step: TrainStep, mesh: Mesh) -> Callable[..., tuple[TrainState, Metrics]]:
    """Returns ``block(key, state, batches, numbers)``, jitted over ``mesh``: a step a batch.

    Leaves of ``batches`` have shape (steps, shards, examples of a shard, ...). They are gathered
    beforehand, so the program is the same wherever the data lie. Step i uses ``fold_in(key, i)``.
    The state is donated. Metrics gain a leading axis of steps. Every step is given ``numbers``, if
    they are not None.
    """

    def block(
        key: Key, state: TrainState, batches: PyTree, numbers: PyTree
    ) -> tuple[TrainState, Metrics]:
        given = () if numbers is None else (numbers,)

        def step(state: TrainState, batch: PyTree) -> tuple[TrainState, Metrics]:
            return train_step(jax.random.fold_in(key, state.step), state, batch, *given)

        return jax.lax.scan(step, state, batches)

    sharded = jax.shard_map(
        block,
        mesh=mesh,
        in_specs=(EVERYWHERE, STATE_SPECS, OVER_SHARDS, EVERYWHERE),
        out_specs=(STATE_SPECS, EVERYWHERE),
        # The step averages its gradients; with the check, JAX would sum them again.
        check_vma=False,
    )

    is_set = f"--{DETERMINISTIC}" in os.environ.get("XLA_FLAGS", "")
    is_gpu = mesh.devices.flat[0].platform == "gpu"
    options = {DETERMINISTIC: True} if is_gpu and not is_set else None
    return jax.jit(sharded, donate_argnums=1, compiler_options=options)


class BlockRunner:
    """Compiles a block once for each length, and counts the time.

    Attributes:
      compile_seconds: spent compiling so far.
    """

    def __init__(self, train_step: TrainStep, mesh: Mesh, key: Key, numbers: PyTree = None):
        self._block = make_block(train_step, mesh)
        make_block.cache_clear()  # the next run reads anew what the step reads
        self._key, self._numbers = key, replicate_arrays(numbers, mesh)
        self._compiled: dict[int, Future[Callable]] = {}
        self.compile_seconds = 0.0

    def compile_ahead(self, state: TrainState, batches: PyTree) -> None:
        """Compiles the block of such batches in another thread, while other work goes on."""
        started, size = time.perf_counter(), leading_size("batches", batches)
        with phase(f"compiling {size:,} steps"):
            lowered = self._block.lower(self._key, state, batches, self._numbers)

        def compile_block() -> Callable:
            compiled = lowered.compile()
            self.compile_seconds += time.perf_counter() - started
            return compiled

        pool = ThreadPoolExecutor(1, "ebmjax-compiler")
        self._compiled[size] = pool.submit(compile_block)
        pool.shutdown(wait=False)

    def __call__(self, state: TrainState, batches: PyTree) -> tuple[TrainState, Metrics]:
        """Runs as many steps as ``batches`` has; returns before the device has finished them."""
        size = leading_size("batches", batches)
        if size not in self._compiled:
            self.compile_ahead(state, batches)
        if not self._compiled[size].done():
            with phase("waiting for the compiler"):
                wait([self._compiled[size]])
        return self._compiled[size].result()(self._key, state, batches, self._numbers)
