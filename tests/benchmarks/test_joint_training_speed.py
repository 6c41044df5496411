import importlib
import json
import math
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from PIL import Image

from ebmjax.learning import ChainKind, ChainPlan, run_chains
from ebmjax.losses import joint_log_density
from ebmjax.networks import WideResNet, from_linen
from ebmjax.samplers import sgld, uniform_law

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
TINY = "--images 8x8x1 --steps 2 --batch 2 --jem_steps 1 --block 2 --repeats 3"
EPS = 2.0**-23

# In place of a Python that has PyTorch: the network of the file it is given is applied by ebmjax,
# train steps take a quarter of a second, and what was asked is written down.
STAND_IN = """#!{python}
import json, sys
sys.path.insert(0, "{root}")
import jax, numpy as np
from flax.traverse_util import unflatten_dict
from ebmjax.networks import WideResNet
arrays = dict(np.load(sys.argv[2]))
settings = json.loads(str(arrays["settings"]))
params = {{k[7:]: v for k, v in arrays.items() if k.startswith("params/")}}
network = WideResNet(settings["depth"], settings["widen_factor"], settings["num_classes"])
logits = jax.jit(network.apply)({{"params": unflatten_dict(params, sep="/")}}, arrays["probe"])
num_params = sum(leaf.size for leaf in params.values())
about = {{"version": "0.0", "threads": 3, "num_params": num_params, "logits": logits.tolist()}}
print(json.dumps(about), flush=True)
asked = [settings["batch_size"], settings["num_steps"], sys.argv[1], arrays["images"].shape]
for line in sys.stdin:
    print(0.25 * int(line), flush=True)
    asked.append(int(line))
open("{log}", "w").write(json.dumps(asked))
"""


@pytest.fixture(scope="module")
def module():
    """Imports a file of benchmarks/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module


@pytest.fixture
def main(module, monkeypatch):
    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["joint_training.py", *map(str, arguments)])
        module("joint_training").main()

    return main


@pytest.fixture
def stand_in(tmp_path):
    python, log = tmp_path / "python", tmp_path / "asked.json"
    python.write_text(STAND_IN.format(python=sys.executable, root=FOLDER.parent, log=log))
    python.chmod(0o755)
    return python, log


@pytest.mark.slow
def test_both_sides_are_asked_for_the_same_and_end_in_table_json_and_plot(
    main, module, stand_in, tmp_path, monkeypatch, capsys
):
    python, log = stand_in
    folder = tmp_path / "new" / "results"
    benchmark, counts = module("joint_training"), []

    def counting(subject, reference, pairs, asked):
        counts.append(len(pairs))
        return compare(subject, reference, pairs, asked)

    compare = benchmark.compare
    monkeypatch.setattr(benchmark, "compare", counting)
    main(*TINY.split(), f"--torch_python={python}", "--out", folder)
    printed = capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {
        f"joint_training.{ending}" for ending in ("txt", "json", "png")
    }
    assert (folder / "joint_training.txt").read_text() == printed

    assert counts == [3, 3]  # neither includes a compilation
    # Before the first step, after the block that compiles, after each of three repeats.
    batch_size, num_steps, script, images, *blocks = json.loads(log.read_text())
    assert (batch_size, num_steps, blocks) == (2, 1, [2] * 5)
    assert (Path(script), images) == (FOLDER / "_torch_jem.py", [1440, 8, 8, 1])

    saved = json.loads((folder / "joint_training.json").read_text())
    assert printed.startswith(saved["machine"] + "\n")
    assert re.match(
        r"\d{4}-\d\d-\d\d  .*PyTorch 0.0 with 3 threads .* 3 repeats  load [\d.]+ to [\d.]+$",
        saved["machine"],
    )
    chain, train_step = saved["rows"]
    assert (chain["subject"], chain["reference"]) == ("SGLD, 2 steps, 8x8x1", "2 gradients")
    assert (chain["asked"], train_step["asked"]) == (1.1, 1.0)
    assert (train_step["subject"], train_step["reference"]) == (
        "JEM train step, 1 steps",
        "PyTorch",
    )
    assert train_step["reference_ms"] == 250.0
    # With an odd number of repeats the medians are of the same one: the reference is constant.
    assert train_step["ratio"] == pytest.approx(train_step["subject_ms"] / 250.0, rel=1e-12)
    for row in saved["rows"]:
        assert 0 < row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    with Image.open(folder / "joint_training.png") as image:
        assert len(image.convert("RGB").getcolors(maxcolors=2**24)) > 3


@pytest.mark.slow
def test_without_pytorch_its_ratio_is_left_out_and_nothing_is_written_without_out(
    main, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    main(*TINY.split())
    head, *_, last = capsys.readouterr().out.splitlines()
    assert "no PyTorch, for want of --torch_python" in head
    subject_ms, reference, *numbers = last.removeprefix("JEM train step, 1 steps").split()
    assert float(subject_ms) > 0
    assert reference == "PyTorch"
    assert not re.search(r"\d", " ".join(numbers[:-2]))
    assert not list(tmp_path.iterdir())


def test_rows_without_a_reference_are_null_in_json(module, tmp_path, capsys):
    benchmark = module("joint_training")
    row = benchmark.compare("ours", "theirs", [(1.0, math.nan)] * 3, 1.0)
    benchmark.report([row], "head", tmp_path)
    assert json.loads((tmp_path / "joint_training.json").read_text())["rows"] == [
        {
            "subject": "ours",
            "reference": "theirs",
            "subject_ms": 1.0,
            "reference_ms": None,
            "ratio": None,
            "ratio_low": None,
            "ratio_high": None,
            "asked": 1.0,
        }
    ]


def test_the_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(module):
    row = module("joint_training").compare("a", "b", [(2.0, 1.0), (6.0, 4.0), (4.0, 8.0)], 1.1)
    assert row == ("a", "b", 4.0, 4.0, 1.5, 0.5, 2.0, 1.1)


def test_a_timing_is_a_step_of_the_block_between_two_monitored_steps(module, monkeypatch):
    step = module("_jem_step")
    clock = iter([1.0, 10.0, 12.0, 20.0])  # evaluated from 1 to 10 s and from 12 to 20 s
    monkeypatch.setattr(step, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    alternation = step.Alternation(SimpleNamespace(ask=lambda steps: 0.07 * int(steps)), 4)
    for number in (0, 4):
        assert alternation(jnp.zeros(()), number) == {}
    assert alternation.pairs[1] == (2000.0 / 4, 70.0)


@pytest.mark.parametrize(
    ("num_params", "offset", "message"),
    [
        (6, 1e-6, None),
        (7, 0.0, "PyTorch has 7 parameters, ebmjax 6"),
        (6, 1e-3, "differ by up to 1.0e-03"),
        (6, math.nan, "differ by up to nan"),
    ],
)
def test_only_the_same_network_is_timed(num_params, offset, message, module):
    about = {"num_params": num_params, "logits": [[1.0, -2.0 + offset]]}
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    check = partial(module("_jem_step").check_agreement, about, params, jnp.array([[1.0, -2.0]]))
    if message is None:
        check()
    else:
        with pytest.raises(SystemExit, match=message):
            check()


def test_a_python_without_pytorch_ends_the_program(module):
    with pytest.raises(SystemExit, match="--torch_python ended"):
        module("_torch_process").TorchProcess(Path(shutil.which("false")), "_torch_jem.py")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--steps", "0"], "--steps: must be an integer of at least 1, got '0'"),
        (["--repeats", "x"], "--repeats: must be an integer of at least 1, got 'x'"),
        (["--images", "8x8"], "--images: must be HEIGHTxWIDTHxCHANNELS, got '8x8'"),
        (["--images", "8x8x0"], "--images: must be an integer of at least 1, got '0'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_end_the_program(arguments, expected, main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(*arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


# From here on with PyTorch, where it is installed.


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module", params=[(8, 8, 1), (16, 12, 3)], ids=["8x8x1", "16x12x3"])
def same_network(torch, module, request):
    """The parameters, and both networks of them."""
    network = from_linen(WideResNet(10, 1, 7))
    params, _ = jax.jit(network.init)(jax.random.key(0), jnp.zeros(request.param))
    # Biases start at zero, which would hide one that is not copied.
    params = jax.tree.map(
        lambda leaf: leaf + 0.05 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params
    )
    theirs = module("_torch_jem").WideResNet(10, 1, request.param[2], 7, is_padded_as_xla=True)
    theirs.load_flax({k: np.asarray(v) for k, v in flatten_dict(params, sep="/").items()})
    return params, network, theirs, request.param


def to_torch(torch, images):
    return torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).contiguous()


def test_the_networks_have_the_same_parameters_and_logits(same_network, torch):
    params, network, theirs, shape = same_network
    num_params = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert sum(leaf.numel() for leaf in theirs.parameters()) == num_params
    images = jax.random.uniform(jax.random.key(3), (5, *shape), minval=-1.0)
    ours = jax.jit(network.apply)(params, {}, images)[0]
    # Sums of up to 576 products in two orders, in each of ten layers one after the other.
    np.testing.assert_allclose(
        theirs(to_torch(torch, images)).detach().numpy(),
        ours,
        rtol=0,
        atol=10 * 576 * EPS * float(jnp.abs(ours).max()),
    )


def test_chains_without_noise_end_in_the_same_place(same_network, torch, module):
    params, network, theirs, shape = same_network
    start = jax.random.uniform(jax.random.key(4), (1, *shape), minval=-1.0)
    settings = {"buffer_size": 1, "batch_size": 2, "num_steps": 3, "reinit_prob": 0.0}
    settings |= {"step_size": 1.0, "noise_scale": 0.0, "learning_rate": 1e-3}
    trainer = module("_torch_jem").Trainer(theirs, to_torch(torch, start), None, settings)
    trainer.buffer[:] = to_torch(torch, start)
    kind = ChainKind(sampler=partial(sgld, step_size=1.0, noise_scale=0.0), num_steps=3)
    plan = ChainPlan(
        kinds={"sgld": kind},
        num_samples=2,
        law=uniform_law(shape, -1.0, 1.0),
        reinit_prob=0.0,
    )

    def log_density(x):
        return joint_log_density(network.apply(params, {}, x)[0])

    starts = jnp.concatenate([start, start])
    keys, labels = jax.random.split(jax.random.key(5), 1), jnp.zeros(2, jnp.int32)
    ends, _, _ = run_chains(keys, lambda label: log_density, plan, starts, labels)
    found = trainer.sample().permute(0, 2, 3, 1).numpy()
    # Three scores of a network as accurate as its logits are.
    scale = float(jnp.abs(ends - starts).max())
    assert scale > 1e-3
    np.testing.assert_allclose(found, ends, rtol=0, atol=3 * 10 * 576 * EPS * scale)
    np.testing.assert_array_equal(trainer.buffer.permute(0, 2, 3, 1).numpy()[0], found[0])


def test_the_timed_network_differs_in_where_it_pads_alone(same_network, torch, module):
    params, _, checked, shape = same_network
    timed = module("_torch_jem").WideResNet(10, 1, shape[2], 7)
    timed.load_flax({k: np.asarray(v) for k, v in flatten_dict(params, sep="/").items()})
    mine, other = timed.state_dict(), checked.state_dict()
    assert list(mine) == list(other)
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    images = to_torch(torch, jax.random.uniform(jax.random.key(6), (2, *shape)))
    hidden = timed.blocks[0](timed.first(images))  # before any stride
    assert torch.equal(hidden, checked.blocks[0](checked.first(images)))
    # Every later layer makes as many numbers, from windows a pixel away.
    for ours, theirs in zip(timed.blocks[1:], checked.blocks[1:], strict=True):
        assert ours(hidden).shape == theirs(hidden).shape
        assert not torch.allclose(ours(hidden), theirs(hidden))
        hidden = ours(hidden)


@pytest.mark.parametrize("broken", ["missing", "shape"])
def test_parameters_that_do_not_fit_are_refused(broken, same_network, module):
    params, _, _, shape = same_network
    flat = {k: np.asarray(v) for k, v in flatten_dict(params, sep="/").items()}
    if broken == "missing":
        del flat["ResidualBlock_1/shortcut/kernel"]
    else:
        flat["Dense_0/bias"] = np.zeros(3, np.float32)
    theirs = module("_torch_jem").WideResNet(10, 1, shape[2], 7)
    with pytest.raises(ValueError, match="lack 1 of" if broken == "missing" else "Dense_0/bias"):
        theirs.load_flax(flat)
