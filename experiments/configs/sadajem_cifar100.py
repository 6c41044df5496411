"""SADA-JEM on CIFAR-100.

Claim: 76.4 % accuracy, IS 10.95 and FID 15.1 with K = 10; 75.0 / 11.63 / 14.4 with K = 5; 77.3 /
10.78 / 19.9 with K = 20; the classifier alone 81.3 %, with SAM 83.4 %.
Paper: SADA-JEM, Tables 1, 2, 5, 6 and 7: WRN-28-10 with batch normalisation, SAM with radius 0.2,
proximal SGLD without noise, p(x) on images without augmentation.
Command:
  python experiments/run.py --config=configs/sadajem_cifar100.py --config.data.data_dir=FOLDER
Hardware: one GPU; "cpu" is sized for 2 CPU cores.
Expected numbers: not yet run.

Variants: k5, k20; cosine; softmax and softmax_sam (the classifier alone, by the same recipe; the
paper does not say its own); jempp, jempp_sam, jempp_unaugmented and jempp_unaugmented_l2 (what the
paper's Table 5 leaves out or puts in on CIFAR-10); sam_R and asam_R, the radius of SAM and ASAM
(005 is 0.05; asam_2 is the published code's default); statistics (the published code's running
averages, which samples enter, too), literal (both); bfloat16 (network and chains; energies stay
float32); cpu (a small network on 5,000 images of 16x16).
"""

from ml_collections import ConfigDict

from ebmjax.recipes.core.files import beside
from ebmjax.recipes.joint.cifar import on_cifar100
from ebmjax.recipes.joint.fields import configure

sadajem_cifar10 = beside(__file__, "sadajem_cifar10.py")
BASE = sadajem_cifar10.BASE | {"optimizer.learning_rate": 0.01}
VARIANTS = sadajem_cifar10.VARIANTS


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    return configure(variant, on_cifar100(BASE, variant), VARIANTS)
