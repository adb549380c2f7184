"""Load vision training data: pack a dataset once, then read batches from it at full speed."""

from headrace import (
    _startup_interrupts as _startup_interrupts,  # first: Ctrl-C may come during the imports below
)
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
from headrace.flow.flow import Flow
from headrace.formats.detect import open_source
from headrace.formats.source import Source
from headrace.open import open_dataset
from headrace.pack.encode_arrays import Encode
from headrace.pack.export import export_samples
from headrace.pack.index_in_place import index_dataset
from headrace.pack.packer import PackSummary, pack_dataset
from headrace.pack.shrink_images import Shrink
from headrace.read.dataset import Dataset
from headrace.sample import Sample
from headrace.serve.batch import Batch
from headrace.serve.loader import Loader
from headrace.serve.sampling import Mixture
from headrace.store.verify import Problem, verify_dataset

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
    "Source",
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
