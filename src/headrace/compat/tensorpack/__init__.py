"""The names of `tensorpack.dataflow`, over Flow: change the import line, keep the program.

    from headrace.compat.tensorpack import *      # was: from tensorpack.dataflow import *

Where the original hangs, duplicates, loses or blurs, this does what its documentation promised;
docs/reference/flow.md has the table, and docs/reference/drop-in.md what is not carried over.
"""

from headrace.compat.tensorpack import dataset, imgaug
from headrace.compat.tensorpack.dataflow import (
    DataFlow,
    DataFlowReentrantGuard,
    DataFlowTerminated,
    ProxyDataFlow,
    RNGDataFlow,
)
from headrace.compat.tensorpack.image import ImageFromFile
from headrace.compat.tensorpack.imgaug import AugmentorList
from headrace.compat.tensorpack.parallel import (
    AugmentImageComponent,
    AugmentImageComponents,
    MultiProcessMapAndBatchData,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapData,
    MultiProcessMapDataZMQ,
    MultiProcessPrefetchData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadPrefetchData,
    MultiThreadRunner,
    PrefetchData,
    PrefetchDataZMQ,
)
from headrace.compat.tensorpack.remote import RemoteDataZMQ, send_dataflow_zmq
from headrace.compat.tensorpack.seed import fix_rng_seed
from headrace.compat.tensorpack.serialize import (
    LMDBData,
    LMDBDataDecoder,
    LMDBDataPoint,
    LMDBSerializer,
    PrintData,
    TestDataSpeed,
)
from headrace.compat.tensorpack.sources import (
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    FakeData,
)
from headrace.compat.tensorpack.transforms import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    SelectComponent,
)

__all__ = [
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentorList",
    "BatchData",
    "BatchDataByShape",
    "CacheData",
    "ConcatData",
    "DataFlow",
    "DataFlowReentrantGuard",
    "DataFlowTerminated",
    "DataFromGenerator",
    "DataFromIterable",
    "DataFromList",
    "FakeData",
    "FixedSizeData",
    "ImageFromFile",
    "JoinData",
    "LMDBData",
    "LMDBDataDecoder",
    "LMDBDataPoint",
    "LMDBSerializer",
    "LocallyShuffleData",
    "MapData",
    "MapDataComponent",
    "MultiProcessMapAndBatchData",
    "MultiProcessMapAndBatchDataZMQ",
    "MultiProcessMapData",
    "MultiProcessMapDataZMQ",
    "MultiProcessPrefetchData",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "MultiThreadMapData",
    "MultiThreadPrefetchData",
    "MultiThreadRunner",
    "PrefetchData",
    "PrefetchDataZMQ",
    "PrintData",
    "ProxyDataFlow",
    "RNGDataFlow",
    "RandomChooseData",
    "RandomMixData",
    "RemoteDataZMQ",
    "RepeatedData",
    "RepeatedDataPoint",
    "SelectComponent",
    "TestDataSpeed",
    "dataset",
    "fix_rng_seed",
    "imgaug",
    "send_dataflow_zmq",
]
