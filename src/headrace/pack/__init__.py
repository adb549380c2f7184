"""From a source to a dataset on disk: packing, indexing in place, export."""
