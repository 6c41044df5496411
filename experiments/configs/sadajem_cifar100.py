"""SADA-JEM on CIFAR-100.

Claim: 76.4 % accuracy, IS 10.95 and FID 15.1 with K = 10; 75.0 / 11.63 / 14.4 with K = 5; 77.3 /
10.78 / 19.9 with K = 20. The classifier alone has 81.3 %, with SAM 83.4 %.
Paper: as sadajem_cifar10.py, with its variants. The buffer holds 10,400 images, not 10,000, as many
of each class in each shard.
Expected numbers: not yet run.
"""

from ebmjax.recipes.config.files import project

sadajem_cifar10 = project("configs.sadajem_cifar10")
BASE = sadajem_cifar10.BASE | {"optimizer.learning_rate": 0.01}
get_config = project("settings.joint").on_cifar100(BASE, sadajem_cifar10.VARIANTS)
