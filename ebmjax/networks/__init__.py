"""Networks for energies, classifiers and generators, as Flax Linen modules; all optional.

Networks of other kinds take the form of a ``Network``.
"""

from ebmjax.networks._adapters import from_equinox as from_equinox
from ebmjax.networks._adapters import from_nnx as from_nnx
from ebmjax.networks._convolution import Convolution as Convolution
from ebmjax.networks._convolution import Lowering as Lowering
from ebmjax.networks._convolution import convolve as convolve
from ebmjax.networks._energies import ConvClassifier as ConvClassifier
from ebmjax.networks._energies import ConvEnergy as ConvEnergy
from ebmjax.networks._energies import LatentEnergy as LatentEnergy
from ebmjax.networks._energies import MLPEnergy as MLPEnergy
from ebmjax.networks._generator import ConvGenerator as ConvGenerator
from ebmjax.networks._generator import DenseGenerator as DenseGenerator
from ebmjax.networks._inception_weights import load_inception as load_inception
from ebmjax.networks._inception_weights import read_tensors as read_tensors
from ebmjax.networks._network import SADA_JEM_POLICY as SADA_JEM_POLICY
from ebmjax.networks._network import Network as Network
from ebmjax.networks._network import NormPolicy as NormPolicy
from ebmjax.networks._network import from_functions as from_functions
from ebmjax.networks._network import from_linen as from_linen
from ebmjax.networks._residual_energy import ResidualEnergy as ResidualEnergy
from ebmjax.networks._spectral_norm import cap_kernels as cap_kernels
from ebmjax.networks._spectral_norm import spectral_norm as spectral_norm
from ebmjax.networks._transposed_convolution import TransposedConvolution as TransposedConvolution
from ebmjax.networks._univariate import UnivariateEnergy as UnivariateEnergy
from ebmjax.networks._wide_resnet import WideResNet as WideResNet
