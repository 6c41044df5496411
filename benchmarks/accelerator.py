"""Runs other benchmarks in an accelerator's sizes, most valuable first, for a number of minutes.

  python benchmarks/accelerator.py --minutes=13 --out=FOLDER
  python benchmarks/accelerator.py --rehearse --out=FOLDER

Measures chains on a WRN-28-10 beside their gradients and the largest matrix product, training steps
of SADA-JEM and of the latent EBM, and SVGD alone. Each command runs in a process of its own, prints
its table and writes it into FOLDER/NAME. A time limit loses one of them at most, because the same
command goes on with what is not there. No command begins after --minutes. --rehearse tries all of
them in tiny sizes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import _harness as harness

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.run.compilation import quick_flags


def list_commands(is_rehearsal: bool) -> dict[str, str]:
    """Returns the benchmarks with their arguments, by names for their results."""
    variant, half, num_steps, sizes = "", "bfloat16", 40, "--random_examples=1024 --blocks=5"
    chains = "--energies wrn_28_10 --resolutions 32 --chains 64 --product 8192"
    powers, alone = (10, 30), "--resolutions 32 --chains 1000"
    if is_rehearsal:
        variant, half, num_steps, sizes = "smoke", "smoke", 2, "--random_examples=128 --blocks=1"
        chains = "--energies conv --resolutions 8 --chains 4 --steps 2 --repeats 1 --product 64"
        powers, alone = (2, 3), "--resolutions 2 --chains 8 --steps 2 --repeats 1"
    chains = f"samplers --samplers sgld psgld mala svgd {chains}"
    steps = f"configuration {sizes} --flops --config=configs"
    latent = (
        f"{steps}/thermo_celeba.py:{variant} --config.train.steps_per_dispatch=2 "
        f"--config.sampler.posterior.num_steps={num_steps} --config.loss.num_intervals="
    )
    return {
        "sadajem_bfloat16": f"{steps}/sadajem_cifar10.py:{half}",
        "chains_bfloat16": f"{chains} --dtype bfloat16",
        "sadajem_float32": f"{steps}/sadajem_cifar10.py:{variant}",
        "chains_float32": chains,
        **{f"latent_{n}": f"{latent}{n}" for n in powers},
        "svgd": f"samplers --samplers svgd --energies gaussian {alone}",
    }


def measure(folder: Path, command: str, is_rehearsal: bool) -> bool:
    """Runs a benchmark unless ``folder`` has its table; says whether the table is there then."""
    benchmark, *arguments = command.split()
    file, script = folder / f"{benchmark}.json", Path(__file__).resolve().with_name("run.py")
    if file.exists() and json.loads(file.read_text()).get("is_complete"):
        return True
    flags = os.environ.get("XLA_FLAGS", "")
    environment = os.environ | {"XLA_FLAGS": quick_flags(flags) if is_rehearsal else flags}
    line = [sys.executable, str(script), benchmark, *arguments, f"--out={folder}"]
    return not subprocess.run(line, env=environment, check=False).returncode


def main(argv: Sequence[str] | None = None) -> None:
    """Measures until everything is measured or the time is over."""
    parser = harness.make_parser(__doc__)
    parser.set_defaults(out=Path("accelerator"))
    whole = "in which commands begin"
    parser.add_argument("--minutes", type=float, default=9.0, help=whole)
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, to try the command")
    options = parser.parse_args(argv)
    if not options.minutes > 0:
        parser.error("--minutes must be above 0.")
    deadline, failed = time.monotonic() + 60 * options.minutes, []
    for name, command in list_commands(options.rehearse).items():
        if time.monotonic() > deadline:
            print("The time is over. The same command goes on.")
            break
        print(f"{name}: {command}", flush=True)
        if not measure(options.out / name, command, options.rehearse):
            failed.append(name)
    if failed:
        raise SystemExit(f"Without a table: {', '.join(failed)}. The same command tries again.")


if __name__ == "__main__":
    quietly(main)
