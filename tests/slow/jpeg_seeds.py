"""Writes the JPEGs that `make fuzz-jpeg` mutates: `python tests/slow/jpeg_seeds.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from scenes import encoded, jpeg, scene, with_orientation


def write_seeds(folder: Path) -> int:
    """One picture of each kind: sampling, progressive, grey, inks, restarts, EXIF; their number."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {
        f"{'progressive' if progressive else 'sequential'}-{sampling}": jpeg(
            97, 83, sampling, subsampling=sampling, progressive=progressive
        )
        for progressive in (False, True)
        for sampling in range(3)
    }
    seeds["large"] = jpeg(400, 300, 5)
    seeds["grey"] = encoded(scene(70, 50), mode="L")
    seeds["inks"] = encoded(scene(70, 50), mode="CMYK")
    seeds["restarts"] = jpeg(120, 90, 6, restart_marker_rows=1)
    seeds["turned"] = with_orientation(jpeg(60, 90, 7), 6)
    for name, picture in seeds.items():
        (folder / f"{name}.jpg").write_bytes(picture)
    return len(seeds)


if __name__ == "__main__":
    print(write_seeds(Path(sys.argv[1])), "pictures")
