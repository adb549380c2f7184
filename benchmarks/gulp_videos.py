"""Gulps a folder of classes with mp4 files as gulp2_video_folder does; runs where GulpIO2 is installed.

    python benchmarks/gulp_videos.py VIDEOS OUT WORKERS

The command itself finds webm files only (GulpIO2 0.0.4 keeps the last of its two suffixes), so this gives the same
adapter the suffix. Chunks are small enough for all workers to have some.
"""

from __future__ import annotations

import sys

from gulpio2.adapters import VideoFolderAdapter
from gulpio2.fileio import GulpIngestor

if __name__ == "__main__":
    videos, out, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    adapter = VideoFolderAdapter(f"{videos}/", out, file_extensions=[".mp4"])
    per_chunk = -(-len(adapter) // (4 * workers))
    GulpIngestor(adapter, out, per_chunk, workers)()
