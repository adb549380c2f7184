"""The loaders that peers.py compares: each a function from the working folder to endless batches.

The work is the same for all: RandomResizedCrop(224) and flip, uint8 batches of 256, two workers or threads, shuffled
in whatever way the loader does that. `photos` in the folder holds the images, `packed` the same packed; a loader with
a layout of its own writes that first, which is not counted. A batch is told by its length.
Where a loader cannot do the same, `instead` says what it does, and peers.py prints it.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

BATCH, SIZE, WORKERS, MIXED = 256, 224, 2, 1000
Batches = Iterator[int]


@dataclass(frozen=True)
class Contender:
    """A loader: its function, the modules that it imports, in this order, the environment of
    peers.py that has them, and what it does instead of the common work.
    """

    run: Callable[[Path], Batches]
    modules: tuple[str, ...]
    environment: str = ""
    instead: str = ""

    def import_modules(self) -> None:
        from torchvision_import import import_torchvision

        for name in self.modules:
            if name == "torchvision":
                import_torchvision()
            else:
                importlib.import_module(name)


def list_photos(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "photos").rglob("*") if path.is_file())


def repeat(loader: Any) -> Batches:
    """Yield the batch sizes of epoch after epoch; a batch is (images, labels)."""
    while True:
        for images, _ in loader:
            yield len(images)


@cache
def make_torchvision_steps() -> Callable[[Any], Any]:
    from torchvision_import import import_torchvision

    T = import_torchvision().transforms
    return T.Compose([T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.PILToTensor()])


def decode_pillow(data: bytes) -> Any:
    import io

    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


def crop_pillow(sample: dict[str, Any]) -> tuple[Any, int]:
    """Apply torchvision's steps to a sample of encoded bytes."""
    return make_torchvision_steps()(decode_pillow(sample["image"])), sample["label"]


def decode_opencv(data: bytes) -> Any:
    import cv2
    import numpy as np

    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def decode_simplejpeg(data: bytes) -> Any:
    import simplejpeg

    return simplejpeg.decode_jpeg(data)


def crop_opencv(pixels: Any) -> Any:
    """Crop and flip decoded pixels as ffcv does, with cv2's INTER_AREA."""
    import cv2
    from photos import draw_box

    if pixels.ndim == 2:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)
    left, top, width, height = draw_box(random, pixels.shape[1], pixels.shape[0])
    crop = pixels[top : top + height, left : left + width]
    out = cv2.resize(crop, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return cv2.flip(out, 1) if random.random() < 0.5 else out


class Photos:
    """A map-style dataset of cropped photos; `read` reads an item."""

    def __init__(self, items: list[Any], read: Callable[[Any], Any]) -> None:
        import cv2

        cv2.setNumThreads(1)
        self.items, self.read = items, read

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        return crop_opencv(self.read(self.items[number])), number


def load_torch(data: Any, shuffle: bool = True) -> Batches:
    from torch.utils.data import DataLoader

    options = {"num_workers": WORKERS, "persistent_workers": True}
    return repeat(DataLoader(data, BATCH, shuffle, **options))


def run_headrace(source: str, folder: Path) -> Batches:
    import headrace
    from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop

    steps = [RandomResizedCrop(SIZE), RandomHorizontalFlip()]
    return repeat(
        headrace.Loader(folder / source, BATCH, shuffle=True, transform=steps, threads=WORKERS)
    )


def run_torchvision(folder: Path) -> Batches:
    steps = make_torchvision_steps()
    from torchvision.datasets import ImageFolder

    return load_torch(ImageFolder(str(folder / "photos"), steps))


def run_dataloader(decode: Callable[[bytes], Any], folder: Path) -> Batches:
    """Load with a plain DataLoader that decodes as ffcv does: ffcv without its format and threads."""
    return load_torch(Photos(list_photos(folder), lambda path: decode(path.read_bytes())))


def run_opencv_threads(folder: Path) -> Batches:
    """Load with two Python threads and OpenCV, without any loader."""
    from concurrent.futures import ThreadPoolExecutor

    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    files = list_photos(folder)

    def load(slot: np.ndarray, path: Path) -> None:
        slot[:] = crop_opencv(decode_opencv(path.read_bytes()))

    with ThreadPoolExecutor(WORKERS) as pool:
        while True:
            out = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)
            list(pool.map(load, out, random.choices(files, k=BATCH)))
            yield len(out)


def run_webdataset(folder: Path) -> Batches:
    steps = make_torchvision_steps()
    import webdataset

    urls = sorted(map(str, (folder / "packed").glob("*.tar")))
    data = (
        webdataset.WebDataset(urls, shardshuffle=False, resampled=True)
        .shuffle(MIXED)
        .decode("pil")
        .to_tuple("jpg;jpeg", "cls")
        .map_tuple(steps, int)
        .batched(BATCH)
    )
    return repeat(webdataset.WebLoader(data, batch_size=None, num_workers=WORKERS))


def run_tensorpack(folder: Path) -> Batches:
    """Load as its documentation recommends: LMDB in order, a shuffling buffer, decoding in processes."""
    from tensorpack import dataflow

    path = folder / "tensorpack.lmdb"
    if not path.exists():
        photos = list_photos(folder)
        random.Random(0).shuffle(photos)
        samples = dataflow.DataFromList([[p.read_bytes(), 0] for p in photos], shuffle=False)
        dataflow.LMDBSerializer.save(samples, str(path))
    data = dataflow.LMDBSerializer.load(str(path), shuffle=False)
    data = dataflow.RepeatedData(dataflow.LocallyShuffleData(data, MIXED), -1)
    data = dataflow.MultiProcessMapDataZMQ(
        data, WORKERS, lambda sample: [crop_opencv(decode_opencv(sample[0])), sample[1]]
    )
    data = dataflow.BatchData(data, BATCH, use_list=False)
    data.reset_state()
    return repeat(data)


def run_gulpio2(folder: Path) -> Batches:
    """Load with its reader and decoder (fast, inexact DCT), shuffled by a DataLoader."""
    from gulpio2 import GulpDirectory

    import headrace

    if not (folder / "gulp").exists():
        source = headrace.open_source(folder / "photos")
        samples = (source.read(number) for number in range(len(source.names)))
        headrace.export_samples(samples, folder / "gulp", to="gulp")
    gulp = GulpDirectory(str(folder / "gulp"))
    return load_torch(Photos(list(gulp.merged_meta_dict), lambda name: gulp[name][0][0]))


def run_tensorflow(folder: Path) -> Batches:
    """Load with tf.data and `decode_and_crop_jpeg`, which decodes only the columns of the crop."""
    import tensorflow as tf

    def load(path: Any) -> Any:
        data = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data),
            tf.zeros([1, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        pixels = tf.image.decode_and_crop_jpeg(
            data, window, channels=3, dct_method="INTEGER_ACCURATE"
        )
        pixels = tf.image.random_flip_left_right(tf.image.resize(pixels, (SIZE, SIZE)))
        return tf.cast(pixels, tf.uint8)

    files = list(map(str, list_photos(folder)))
    data = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    data = data.map(load, num_parallel_calls=WORKERS).batch(BATCH).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = WORKERS
    for images in data.with_options(options):
        yield len(images)


def run_dali(folder: Path) -> Batches:
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=WORKERS, device_id=None)
    def load() -> Any:
        files, labels = fn.readers.file(
            file_root=str(folder / "photos"), random_shuffle=True, initial_fill=MIXED
        )
        images = fn.decoders.image_random_crop(
            files, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[SIZE, SIZE])
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    pipeline = load()
    pipeline.build()
    while True:
        images, _ = pipeline.run()
        yield images.as_tensor().shape()[0]


def run_spdl(folder: Path) -> Batches:
    """Load with SPDL's threads; OpenCV decodes, since SPDL cannot crop at random."""
    import cv2
    import numpy as np
    from spdl.pipeline import PipelineBuilder

    cv2.setNumThreads(1)
    files = list_photos(folder)

    def draw() -> Iterator[Path]:
        while True:
            yield from random.sample(files, len(files))

    builder = PipelineBuilder().add_source(draw())
    builder.pipe(lambda path: crop_opencv(decode_opencv(path.read_bytes())), concurrency=WORKERS)
    pipeline = builder.aggregate(BATCH).pipe(np.stack).add_sink(2).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        for images in pipeline.get_iterator():
            yield len(images)


def read_litdata(path: str) -> dict[str, Any]:
    return {"image": Path(path).read_bytes(), "label": 0}


def run_litdata(folder: Path) -> Batches:
    import litdata

    place = str(folder / "litdata")
    if not Path(place).exists():
        inputs = list(map(str, list_photos(folder)))
        litdata.optimize(read_litdata, inputs, place, chunk_bytes="64MB", num_workers=WORKERS)

    data = litdata.StreamingDataset(place, shuffle=True, transform=crop_pillow)
    options = {"num_workers": WORKERS, "persistent_workers": True}
    return repeat(litdata.StreamingDataLoader(data, batch_size=BATCH, **options))


def run_streaming(folder: Path) -> Batches:
    make_torchvision_steps()  # before it imports torchvision itself
    from streaming import MDSWriter, StreamingDataset

    place = folder / "mds"
    if not place.exists():
        with MDSWriter(out=str(place), columns={"image": "bytes", "label": "int"}) as writer:
            for path in list_photos(folder):
                writer.write({"image": path.read_bytes(), "label": 0})

    class Streamed(StreamingDataset):
        def __getitem__(self, index: Any) -> tuple[Any, int]:
            return crop_pillow(super().__getitem__(index))

    data = Streamed(local=str(place), shuffle=True, batch_size=BATCH)
    return load_torch(data, shuffle=False)


def run_ffcv(folder: Path) -> Batches:
    """Load JPEGs from its own file; its writer encodes them again, with quality 90."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip
    from ffcv.writer import DatasetWriter
    from torchvision.datasets import ImageFolder

    path = folder / "photos.beton"
    if not path.exists():
        fields = {"image": RGBImageField(write_mode="jpg"), "label": IntField()}
        writer = DatasetWriter(str(path), fields, num_workers=WORKERS)
        writer.from_indexed_dataset(ImageFolder(str(folder / "photos")))
    steps = [RandomResizedCropRGBImageDecoder((SIZE, SIZE)), RandomHorizontalFlip()]
    pipelines = {"image": steps, "label": [IntDecoder()]}
    order = OrderOption.QUASI_RANDOM
    return repeat(Loader(str(path), BATCH, WORKERS, order=order, pipelines=pipelines))


def write_tar(path: Path, photos: list[Path]) -> None:
    """Write photos as plain members: no hard links, also where files are links of each other."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT, dereference=True) as tar:
        for number, photo in enumerate(photos):
            tar.add(photo, f"{number:08}{photo.suffix.lower()}")


def run_turboloader(folder: Path) -> Batches:
    """Load from a tar with its fused crop and flip, on as many threads as there are cores.

    What it cannot decode, such as a hard link in a tar, which to it is an image without bytes, it
    gives as a black image. That takes no time, so it is an error here.
    """
    import turboloader

    path = folder / "turboloader.tar"
    if not path.exists():
        write_tar(path, list_photos(folder))
    options = {"image_size": SIZE, "output_format": "pytorch", "train_aug": True, "antialias": True}
    loader = turboloader.DataLoader(str(path), BATCH, shuffle=True, **options)
    for epoch in itertools.count():
        loader.set_epoch(epoch)
        for images, about in loader:
            if about["decode_failures"]:
                raise ValueError(f"{about['decode_failures']} images were not decoded")
            yield len(images)


def configure_datago(folder: Path) -> str:
    """Return the settings for one shape, a square, into which images are resized and cropped."""
    shapes = {"min_aspect_ratio": 1.0, "max_aspect_ratio": 1.0, "downsampling_ratio": 32}
    size = {"crop_and_resize": True, "default_image_size": SIZE, "image_to_rgb8": True}
    return json.dumps(
        {
            "source_type": "file",
            "source_config": {"root_path": str(folder / "photos"), "random_sampling": True},
            "image_config": {**size, **shapes},
            "samples_buffer_size": 2 * BATCH,
            "limit": len(list_photos(folder)),
        }
    )


def run_datago(folder: Path) -> Batches:
    """Load files; datago gives single images, and NumPy makes batches of them."""
    import numpy as np
    from datago import DatagoClient, initialize_logging

    os.environ["DATAGO_MAX_TASKS"] = str(WORKERS)
    initialize_logging(log_level="warn")
    client = DatagoClient(configure_datago(folder))
    images: list[Any] = []
    while True:
        client.start()
        while (sample := client.get_sample_auto_convert()) is not None:
            images.append(np.asarray(sample["image"]))
            if len(images) == BATCH:
                yield len(np.stack(images))
                images.clear()


CONTENDERS = {
    "Headrace, packed": Contender(partial(run_headrace, "packed"), ("headrace.transforms",)),
    "Headrace, image folder": Contender(partial(run_headrace, "photos"), ("headrace.transforms",)),
    "torchvision ImageFolder": Contender(run_torchvision, ("torch", "torchvision")),
    "WebDataset": Contender(run_webdataset, ("torch", "torchvision", "webdataset")),
    "tensorpack dataflow, LMDB": Contender(run_tensorpack, ("tensorpack.dataflow", "cv2")),
    "GulpIO2": Contender(run_gulpio2, ("gulpio2", "torch", "cv2"), "gulpio2"),
    "DataLoader, OpenCV": Contender(partial(run_dataloader, decode_opencv), ("torch", "cv2")),
    "DataLoader, simplejpeg": Contender(
        partial(run_dataloader, decode_simplejpeg), ("torch", "cv2", "simplejpeg")
    ),
    "OpenCV in two threads": Contender(run_opencv_threads, ("cv2",)),
    "ffcv, JPEG": Contender(
        run_ffcv, ("torchvision", "ffcv"), "ffcv", "JPEGs encoded again, quality 90"
    ),
    "DALI, CPU": Contender(run_dali, ("nvidia.dali",), "dali"),
    "tf.data": Contender(run_tensorflow, ("tensorflow",), "tensorflow", "no antialiasing"),
    "SPDL, OpenCV": Contender(run_spdl, ("spdl.pipeline", "cv2"), "spdl"),
    "LitData": Contender(run_litdata, ("torchvision", "litdata"), "litdata"),
    "MosaicML Streaming": Contender(run_streaming, ("torchvision", "streaming"), "streaming"),
    "TurboLoader, tar": Contender(
        run_turboloader, ("turboloader",), "turboloader", "float32; a thread per core"
    ),
    "datago, files": Contender(
        run_datago, ("datago", "numpy"), "datago", "whole image to 224, centre crop, no flip"
    ),
}
