"""SADA-JEM on CIFAR-100.

Claim: 76.4 % accuracy, IS 10.95 and FID 15.1 with K = 10; 75.0 / 11.63 / 14.4 with K = 5; 77.3 /
10.78 / 19.9 with K = 20. The classifier alone has 81.3 %, with SAM 83.4 %.
Paper: SADA-JEM, Tables 1, 2, 5, 6 and 7: WRN-28-10 with batch normalisation, SAM with radius 0.2,
proximal SGLD without noise, p(x) on images without augmentation. The buffer holds 10,400 images,
not 10,000: as many of each of 100 classes in each of 8 shards.
Command:
  python experiments/run.py --config=configs/sadajem_cifar100.py --config.data.path=FOLDER
Hardware: one GPU; "cpu" is sized for 2 CPU cores.
Expected numbers: not yet run.

Variants (sadajem_cifar10.py explains them):
- k5, k20; cosine; softmax, softmax_sam.
- jempp, jempp_sam, jempp_unaugmented, jempp_unaugmented_l2: parts of Table 5, on CIFAR-100.
- sam_R, asam_R: the radius of SAM and ASAM.
- statistics; literal.
- cpu: a small network on 5,000 images of 16x16.
"""

from ebmjax.recipes.config.files import beside, project

sadajem_cifar10 = beside(__file__, "sadajem_cifar10.py")
BASE = sadajem_cifar10.BASE | {"optimizer.learning_rate": 0.01}
get_config = project("settings.joint").on_cifar100(BASE, sadajem_cifar10.VARIANTS)
