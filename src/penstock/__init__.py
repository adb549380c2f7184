"""Penstock keeps the accelerator fed: pack a vision training set once, read it back at full speed."""

from penstock import _interrupts as _interrupts  # first: Ctrl-C may come during the imports below
from penstock.errors import (
    CorruptError,
    DecodeError,
    MissingExtraError,
    PackError,
    PenstockError,
    SourceChangedError,
    SourceError,
    WorkerError,
)
from penstock.formats.detect import open_source
from penstock.pack.encode import Encode
from penstock.pack.export import export_samples
from penstock.pack.inplace import index_dataset
from penstock.pack.packer import PackSummary, pack_dataset
from penstock.pack.shrink import Shrink
from penstock.pack.verify import Problem, verify_dataset
from penstock.read.dataset import Dataset
from penstock.read.opening import open_dataset
from penstock.run.flow import Flow
from penstock.sample import Sample
from penstock.serve.batch import Batch
from penstock.serve.loader import Loader
from penstock.serve.sampling import Mixture

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CorruptError",
    "Dataset",
    "DecodeError",
    "Encode",
    "Flow",
    "Loader",
    "MissingExtraError",
    "Mixture",
    "PackError",
    "PackSummary",
    "PenstockError",
    "Problem",
    "Sample",
    "Shrink",
    "SourceChangedError",
    "SourceError",
    "WorkerError",
    "export_samples",
    "index_dataset",
    "open_dataset",
    "open_source",
    "pack_dataset",
    "verify_dataset",
]
