"""Every layout passes the contract of sources."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from formats.making import (
    make_example,
    photos,
    write_arrow,
    write_gulp,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from formats.making_pairs import VOC, coco_content, write_coco, write_pairs, write_voc
from formats.making_videos import write_class_folders
from headrace.errors import SourceError
from headrace.formats.detect import LAYOUTS, detect, open_source
from headrace.formats.source import Source
from headrace.testing.source_contract import SourceContract, same
from trees import make_folder


class Detected(SourceContract):
    """A source whose layout is detected."""

    @staticmethod
    def open(path: Path) -> Source:
        return open_source(path)

    def test_a_sample_beyond_max_file_size_is_refused_and_the_others_are_not(
        self, source: Source, path: Path
    ) -> None:
        samples = [source.read(i) for i in range(len(source.names))]
        sizes = [sum(len(data) for data in sample.values()) for sample in samples]
        largest = int(np.argmax(sizes))
        limited = open_source(path, max_file_size=sizes[largest] - 1)
        with pytest.raises(SourceError, match="bytes are more than .*--max-file-size"):
            limited.read(largest)
        for i, sample in enumerate(samples):
            if 1.2 * sizes[i] < sizes[largest]:
                assert same(limited.read(i), sample)

    def test_located_fields_are_the_bytes_at_their_offset(self, path: Path) -> None:
        layout = detect(path)
        if not LAYOUTS[layout.name].is_indexable:
            pytest.skip("this layout is not indexed in place")
        try:
            source = layout.open_in_place()
        except SourceError as error:
            assert "only plain .tar files" in str(error)
            return
        count = 0
        for part in source.parts:
            for place in part.scan():
                located = place.locate()
                assert part.file in (None, located.file)
                with open(source.root / located.file, "rb") as data:
                    for name, field in located.sample.items():
                        assert os.pread(data.fileno(), len(field), located.offsets[name]) == field
                count += 1
        assert count == len(self.open(path).names)


class TestFolder(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        make_folder(tmp_path / "images")
        return tmp_path / "images"


class TestListing(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        root = tmp_path / "listed"
        root.mkdir()
        for i, data in enumerate(photos(4)):
            (root / f"{i}.jpg").write_bytes(data)
        lines = [f"{i}.jpg,{'ab'[i % 2]},{i / 2}" for i in range(4)]
        (root / "list.csv").write_text("path,label,score\n" + "\n".join(lines) + "\n")
        return root


class TestPairs(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return write_pairs(tmp_path / "pairs")


class TestVoc(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return write_voc(tmp_path / "voc", VOC)


class TestCoco(SourceContract):
    @staticmethod
    def open(path: Path) -> Source:
        return open_source(path, annotations=path.parent / "instances.json")

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return write_coco(tmp_path, coco_content())


class TestFrames(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/gulp-source"


class TestVideos(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return write_class_folders(tmp_path / "videos")


class TestPartsOfVideos(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        root = write_class_folders(tmp_path / "videos", per_class=1, frames=20)
        rows = ["cat/000.mp4,a,0,0.2", "cat/000.mp4,b,0.2,0.5", "dog/000.mp4,b,,"]
        (root / "list.csv").write_text("path,label,start,end\n" + "\n".join(rows) + "\n")
        return root / "list.csv"


class TestGulp(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/gulp-12chunks"


class TestGulpOfImages(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        images = {f"../odd id.{i}": [data] for i, data in enumerate(photos(5))}
        return write_gulp(tmp_path / "gulp", images, {name: name[-1] for name in images})


class TestWebDataset(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/webdataset-dense"


class TestWebDatasetPattern(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/webdataset/train-{000000..000002}.tar"


class TestCompressedWebDataset(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        members = {}
        for i, data in enumerate(photos(6)):
            members |= {f"k{i}.jpg": data, f"k{i}.cls": b"%d" % i}
        return write_tar(tmp_path / "a.tar.gz", members)


class TestTensorpackPickle(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/tensorpack-pickle/data.lmdb"


class TestTensorpackMsgpack(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/tensorpack-msgpack-2019"


class TestTensorpackPyarrow(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/tensorpack-pyarrow-2018"


class TestTensorpackFolder(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/tensorpack-raw-dir/data.lmdb"


class TestEfficientPyTorch(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/efficient-pytorch"


class TestUnifiedDoc(Detected):
    @pytest.fixture
    def path(self, shared: Path) -> Path:
        return shared / "fixtures/unified-doc-merged"


class TestParquet(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        root = tmp_path / "hf"
        root.mkdir()
        images = photos(8)
        write_parquet(root / "train-00000-of-00002.parquet", images[:5])
        write_parquet(root / "train-00001-of-00002.parquet", images[5:])
        return root


class TestArrow(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        root = tmp_path / "hf"
        root.mkdir()
        write_arrow(root / "data-00000-of-00001.arrow", photos(9))
        return root


class TestTFRecord(Detected):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        root = tmp_path / "records"
        root.mkdir()
        for k in range(2):
            examples = [
                make_example({"image/encoded": data, "image/class/label": i, "name": b"x"})
                for i, data in enumerate(photos(4))
            ]
            write_tfrecord(root / f"train-{k:05d}-of-00002", examples)
        return root
