"""JEM++ on CIFAR-100.

Claim: 74.2 % accuracy, IS 9.97 and FID 34.5 with M = 10; 72.1 / 8.05 / 38.9 with M = 5; 75.9 /
10.07 / 33.7 with M = 20.
Paper: SADA-JEM, Table 2, which ran JEM++'s code with its default settings: those of
jempp_cifar10.py. The buffer holds 10,400 images, not 10,000, as many of each class in each shard.
Expected numbers: not yet run.
"""

from ebmjax.recipes.config.files import project

jempp_cifar10 = project("configs.jempp_cifar10")
VARIANTS = {name: jempp_cifar10.VARIANTS[name] for name in ("m5", "m20")}
get_config = project("settings.joint").on_cifar100(jempp_cifar10.BASE, VARIANTS)
