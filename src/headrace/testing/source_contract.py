"""Test what every source guarantees, whatever its layout."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headrace import Sample, Source, open_dataset, pack_dataset, verify_dataset


def same(a: Sample, b: Sample) -> bool:
    """Return whether two samples have the same key, fields, label, columns and frames."""
    return (a.key, dict(a.fields), a.label, dict(a.columns)) == (
        b.key,
        dict(b.fields),
        b.label,
        dict(b.columns),
    ) and {n: list(s) for n, s in a.frames.items()} == {n: list(s) for n, s in b.frames.items()}


class SourceContract:
    """Test a source: inherit this class, add a fixture `path` and a static method `open`.

    The tests read every sample several times: a dataset of five to fifty samples is enough.

        class TestMyFormat(SourceContract):
            open = staticmethod(open_my_format)

            @pytest.fixture
            def path(self, tmp_path):
                return write_my_format(tmp_path / "data")
    """

    @staticmethod
    def open(path: Path) -> Source:
        """Open the source at `path`.

        Args:
            path: The value of the fixture `path`.

        Returns:
            A new source each time.
        """
        raise NotImplementedError

    @pytest.fixture
    def source(self, path: Path) -> Source:
        """Return the source that the tests read."""
        return self.open(path)

    def test_names_sizes_and_mtimes_have_one_entry_per_sample(self, source: Source) -> None:
        count = len(source.names)
        assert count > 0
        assert len(source.sizes) == len(source.mtimes) == count
        assert (np.asarray(source.sizes) >= 0).all()
        assert len(set(source.names)) == count

    def test_each_sample_has_fields_and_a_unique_key_that_is_a_safe_path(
        self, source: Source
    ) -> None:
        samples = [source.read(i) for i in range(len(source.names))]
        keys = [sample.key for sample in samples]
        assert len(set(keys)) == len(keys)
        for sample in samples:
            parts = sample.key.split("/")
            assert "." not in parts[-1], "WebDataset ends a key at its first dot"
            assert not {"", ".", ".."} & set(parts)
            assert sample.fields and all(isinstance(data, bytes) for data in sample.values())
            assert all(name == name.lower() for name in sample)

    def test_reading_in_any_order_and_from_threads_returns_the_same_samples(
        self, source: Source
    ) -> None:
        count = len(source.names)
        expected = [source.read(i) for i in range(count)]
        order = list(np.random.default_rng(0).permutation(count)) * 2
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda i: source.read(int(i)), order))
        assert all(same(sample, expected[i]) for i, sample in zip(order, found, strict=True))

    def test_opening_again_returns_the_same_names_and_sizes(
        self, source: Source, path: Path
    ) -> None:
        again = self.open(path)
        assert list(again.names) == list(source.names)
        assert np.array_equal(again.sizes, source.sizes)

    def test_labels_are_integers_that_the_classes_name(self, source: Source) -> None:
        labels = [source.read(i).label for i in range(len(source.names))]
        assert all(label is None or type(label) is int for label in labels)
        if source.classes is not None:
            assert all(label is None or 0 <= label < len(source.classes) for label in labels)

    def test_samples_have_the_columns_of_the_source(self, source: Source) -> None:
        assert set(source.read(0).columns) == set(source.columns.names)

    def test_packing_keeps_every_byte_and_the_order(
        self, source: Source, path: Path, tmp_path: Path
    ) -> None:
        pack_dataset(self.open(path), tmp_path / "packed", order="source")
        assert verify_dataset(tmp_path / "packed") == []
        dataset = open_dataset(tmp_path / "packed")
        assert len(dataset) == len(source.names)
        assert dataset.classes == (None if source.classes is None else list(source.classes))
        for i, packed in enumerate(dataset):
            sample = source.read(i)
            assert (packed.key, packed.label) == (sample.key, sample.label)
            assert {name: packed[name] for name in sample} == dict(sample.fields)
            assert {n: list(s) for n, s in packed.frames.items()} == {
                n: list(s) for n, s in sample.frames.items()
            }
