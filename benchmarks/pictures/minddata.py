"""MindData over MindRecord: `RandomCropDecodeResize`, flip, AutoTune."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.stored import BATCH, SIDE, Stored

EPOCHS = 1000


def opened_record(stored: Stored, threads: int):
    """The photographs as stored, shuffled, with so many workers for each operator at first, and AutoTune."""
    import mindspore.dataset as dataset
    from mindspore.mindrecord import FileWriter

    path = stored.folder / "photographs.mindrecord"
    if not path.exists():
        writer = FileWriter(str(path), shard_num=1, overwrite=True)
        writer.add_schema({"image": {"type": "bytes"}}, "photographs")
        for row in range(len(stored)):
            writer.write_raw_data([{"image": stored[row].tobytes()}])
        writer.commit()
    dataset.config.set_num_parallel_workers(threads)
    dataset.config.set_enable_autotune(True)
    return dataset.MindDataset(str(path), columns_list=["image"], shuffle=True)


def batches(stored: Stored, threads: int) -> Iterator:
    from mindspore.dataset import vision

    crop = vision.RandomCropDecodeResize(SIDE, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    data = opened_record(stored, threads).map([crop, vision.RandomHorizontalFlip(0.5)], "image").batch(BATCH)
    results = data.create_tuple_iterator(num_epochs=EPOCHS, output_numpy=True)
    for _ in range(EPOCHS):
        for (batch,) in results:
            yield batch
