"""Normalising constants."""

from ebmjax.evidence._log_partition import Base as Base
from ebmjax.evidence._log_partition import LogPartition as LogPartition
from ebmjax.evidence._log_partition import log_partition as log_partition
