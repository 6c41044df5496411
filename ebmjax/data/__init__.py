"""Image data decoded once to uint8, the step -> batch sampler, and on-device transforms."""

from ebmjax.data._digits import load_digits as load_digits
from ebmjax.data._images import ImageData as ImageData
from ebmjax.data._images import dequantise as dequantise
from ebmjax.data._images import from_signed_unit as from_signed_unit
from ebmjax.data._images import to_signed_unit as to_signed_unit
from ebmjax.data._indices import batch_indices as batch_indices
from ebmjax.data._indices import block_indices as block_indices
from ebmjax.data._indices import epoch_indices as epoch_indices
from ebmjax.data._prepare import DataUnavailableError as DataUnavailableError
from ebmjax.data._prepare import prepare_tfds as prepare_tfds
from ebmjax.data._tfds import load_tfds as load_tfds
