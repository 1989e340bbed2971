"""diffprivlib's logistic regression and histogram on the samples of `bench/models.py`."""

import json
import sys
import warnings

import numpy as np
from diffprivlib import models, tools


def main() -> None:
    """Print the numbers that it finds, a list a sample: constant and slopes; heights of bins."""
    warnings.simplefilter("ignore")
    drawn = np.load(sys.argv[1])
    norm = float(np.sqrt(drawn["x"].shape[2]))
    slopes = []
    for x, y in zip(drawn["x"], drawn["y"], strict=True):
        found = models.LogisticRegression(epsilon=1, data_norm=norm, C=1.0, max_iter=1_000)
        found.fit(x, y)
        slopes.append([*np.atleast_1d(found.intercept_).tolist(), *found.coef_.ravel().tolist()])
    bins, epsilon = int(drawn["bins"]), float(drawn["epsilon"])
    heights = [
        tools.histogram(v, epsilon=epsilon, bins=bins, range=(0, 100), density=True)[0].tolist()
        for v in drawn["v"]
    ]
    print(json.dumps({"logistic": slopes, "density": heights}))


if __name__ == "__main__":
    main()
