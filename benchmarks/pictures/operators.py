"""Five operators in Python, one a stage: JPEG -> pixels -> 224 x 224 -> turned -> normalised -> channels first."""

from __future__ import annotations

import numpy as np

from pictures.stored import SIDE

RESULT = (3, SIDE, SIDE), "float32"
DEGREES = 10
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def decode(jpeg) -> np.ndarray:
    import cv2

    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)


def resize(pixels: np.ndarray) -> np.ndarray:
    import cv2

    return cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def rotate(pixels: np.ndarray) -> np.ndarray:
    import cv2

    turn = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), DEGREES, 1)
    return cv2.warpAffine(pixels, turn, (SIDE, SIDE))


def normalise(pixels: np.ndarray) -> np.ndarray:
    return (pixels.astype(np.float32) / 255 - MEAN) / STD


def transpose(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


STAGES = (decode, resize, rotate, normalise, transpose)


def alone() -> None:
    """OpenCV without threads of its own: the pipeline has them."""
    import cv2

    cv2.setNumThreads(0)
