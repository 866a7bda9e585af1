"""Downloads SST from its official address and checks its hash."""

import hashlib
import io
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from whence.data.sst import SPLITS, cached_sst
from whence.errors import DataError

ADDRESS = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
SIZE, SHA256 = 789_539, "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc"


def download_sst(directory: Path | None = None, *, address: str = ADDRESS) -> Path:
    """Download the official archive and unpack its tree files; nothing is written unless the hash matches."""
    folder = directory or cached_sst()
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            content: bytes = answer.read(SIZE + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise DataError(
            f"{address} cannot be reached ({getattr(error, 'reason', error)}); download it elsewhere, unpack it, and give the "
            "folder of train.txt, dev.txt and test.txt by --sst or $WHENCE_SST"
        ) from None
    return unpack(content, folder)


def unpack(content: bytes, folder: Path) -> Path:
    """Check the archive's hash and put its three tree files into the folder."""
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise DataError(
            f"the download has SHA-256 {found[:16]}…, the official archive has {SHA256[:16]}…; it was not unpacked, try again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for split in SPLITS:
            temporary = folder / f".{split}.txt"
            temporary.write_bytes(archive.read(f"trees/{split}.txt"))
            temporary.replace(folder / f"{split}.txt")
    return folder
