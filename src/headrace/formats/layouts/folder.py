"""An image folder: a directory per class, any nesting below it, as torchvision's ImageFolder.

Classes are the sorted names of the top directories, label `k` being the `k`-th. A folder without
images in directories is one of unlabelled images. Symbolic links are followed; loops are not.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.formats.check_class_folders import check_classes
from headrace.formats.class_folders import list_class_files
from headrace.formats.folder_contents import FolderContents, is_image_name
from headrace.formats.image_files import ImageFiles
from headrace.sample import IMAGE_FIELDS


def find_class_folders(folder: FolderContents) -> Path:
    """Return the folder itself. Raise SourceError if the folders in it are not classes."""
    check_classes(folder)
    return folder.path


def open_folder(root: str | os.PathLike[str]) -> ImageFiles:
    """List the folder: samples in the order of ImageFolder, other files that are not hidden in `ignored`."""
    root = Path(root)
    what = f"image files ({', '.join(sorted(IMAGE_FIELDS))})"
    found = list_class_files(root, is_image_name, what)
    return ImageFiles(
        root=root,
        names=found.names,
        sizes=found.sizes,
        mtimes=found.mtimes,
        labels=found.labels,
        classes=found.classes,
        ignored=found.ignored,
    )
