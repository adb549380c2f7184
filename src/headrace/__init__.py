"""Headrace keeps the accelerator fed: pack a vision training set once, read it back at full speed."""

from headrace import _interrupts as _interrupts  # first: Ctrl-C may come during the imports below
from headrace.errors import (
    CorruptError,
    DecodeError,
    HeadraceError,
    MissingExtraError,
    PackError,
    SourceChangedError,
    SourceError,
    WorkerError,
)
from headrace.formats.detect import open_source
from headrace.pack.encode import Encode
from headrace.pack.export import export_samples
from headrace.pack.inplace import index_dataset
from headrace.pack.packer import PackSummary, pack_dataset
from headrace.pack.shrink import Shrink
from headrace.pack.verify import Problem, verify_dataset
from headrace.read.dataset import Dataset
from headrace.read.opening import open_dataset
from headrace.run.flow import Flow
from headrace.sample import Sample
from headrace.serve.batch import Batch
from headrace.serve.loader import Loader
from headrace.serve.sampling import Mixture

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CorruptError",
    "Dataset",
    "DecodeError",
    "Encode",
    "Flow",
    "HeadraceError",
    "Loader",
    "MissingExtraError",
    "Mixture",
    "PackError",
    "PackSummary",
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
