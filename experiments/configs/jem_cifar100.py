"""Joint energy model (JEM) on CIFAR-100.

Claim: 72.2 % accuracy, IS 10.22 and FID 38.1.
Paper: SADA-JEM, Table 2, which ran JEM's published code with its default settings: those of
jem_cifar10.py.
Command:
  python experiments/run.py --config=configs/jem_cifar100.py --config.data.path=FOLDER
Hardware: one GPU.
Expected numbers: not yet run.
"""

from ml_collections import ConfigDict

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.models.joint.fields import configure

joint = project("settings.joint")
jem_cifar10 = beside(__file__, "jem_cifar10.py")


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    return configure(variant, base=joint.on_cifar100(jem_cifar10.BASE, variant), variants={})
