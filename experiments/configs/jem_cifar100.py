"""Joint energy model (JEM) on CIFAR-100.

Claim: 72.2 % accuracy, IS 10.22 and FID 38.1.
Paper: SADA-JEM, Table 2, which ran JEM's code with its default settings: those of jem_cifar10.py.
Expected numbers: not yet run.
"""

from ebmjax.recipes.config.files import project

get_config = project("settings.joint").on_cifar100(project("configs.jem_cifar10").BASE)
