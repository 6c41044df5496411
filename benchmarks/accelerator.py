"""Runs the benchmarks of docs/results/accelerator.md in its sizes, most valuable first.

  python benchmarks/accelerator.py --minutes=13 --out=FOLDER
  python benchmarks/accelerator.py --rehearse --out=FOLDER

Each command runs in a process of its own and writes FOLDER/NAME. The same command again runs what
is not there yet. No command begins after --minutes. --rehearse tries all of them in tiny sizes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import _harness as harness

STEPS = "configuration --random_examples={examples} --blocks={blocks} --flops --config=configs/"
LATENT = (
    f"{STEPS}thermo_celeba.py:{{whole}} --config.train.steps_per_dispatch=2 "
    "--config.sampler.posterior.num_steps={posterior_steps} --config.loss.num_intervals="
)
CHAINS = "sampler_throughput --energies {energy} --resolutions {side} --samplers "
FOUR = "sgld psgld mala svgd --chains {chains} --steps {steps}"
COMMANDS = {
    "sadajem_bfloat16": f"{STEPS}sadajem_cifar10.py:{{half}}",
    "chains_bfloat16": f"{CHAINS}{FOUR} --dtype bfloat16",
    "sadajem_float32": f"{STEPS}sadajem_cifar10.py:{{whole}}",
    "chains_float32": f"{CHAINS}{FOUR}",
    "latent_10": f"{LATENT}10",
    "latent_30": f"{LATENT}30",
    "svgd": f"{CHAINS}svgd --energies gaussian --chains {{particles}}",
}
REAL = {"examples": 1024, "blocks": 5, "half": "bfloat16", "whole": "", "posterior_steps": 40}
REAL |= {"energy": "wrn_28_10", "side": 32, "chains": 64, "steps": 20, "particles": 1000}
TINY = {"examples": 128, "blocks": 1, "half": "smoke", "whole": "smoke", "posterior_steps": 2}
TINY |= {"energy": "conv", "side": 8, "chains": 4, "steps": 2, "particles": 8}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures until everything is measured or the time is over."""
    parser = harness.make_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=9.0, help="in which commands begin")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, to try the commands")
    options = parser.parse_args(argv)
    sizes, deadline, failed = TINY if options.rehearse else REAL, options.minutes * 60, []
    started, script = time.monotonic(), Path(__file__).resolve().with_name("run.py")
    for name, template in COMMANDS.items():
        line, folder = template.format_map(sizes).split(), options.out / name
        table = folder / f"{line[0]}.json"
        if table.exists() and json.loads(table.read_text()).get("is_complete"):
            continue
        if time.monotonic() - started > deadline:
            print("The time is over. The same command goes on.")
            break
        print(f"{name}: {' '.join(line)}", flush=True)
        if subprocess.run(
            [sys.executable, script, *line, f"--out={folder}"], check=False
        ).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"Without a table: {', '.join(failed)}. The same command tries again.")


if __name__ == "__main__":
    main()
