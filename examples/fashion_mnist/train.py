#!/usr/bin/env python3
"""Trains the demo network, 784-512-512-10 with ReLU, and writes it as a bf16 checkpoint.

Needs NumPy and Debian's dataset-fashion-mnist; takes about two minutes on two cores. With one NumPy
build and one number of BLAS threads the result is the same bits every time.
"""
import argparse
import gzip
import json
import struct
import time
from pathlib import Path

import numpy as np

SIZES = (784, 512, 512, 10)


def read_idx(path):
    """An IDX file: magic 00 00 08 rank, big-endian sizes, then bytes."""
    data = gzip.open(path).read()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(folder, part):
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    return images.reshape(len(images), -1).astype(np.float32) / 255, labels


def to_bf16(x):
    """The upper halves of float32 values, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def from_bf16(h):
    return (h.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    """tensors: name -> (dtype name, array). Data follows the header without holes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, array) in tensors.items():
        end = offset + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            f.write(array.tobytes())


def forward(x, weights, biases):
    """Logits of a batch."""
    for i, (w, b) in enumerate(zip(weights, biases)):
        x = (np.maximum(x, 0) if i else x) @ w.T + b
    return x


def train(x, y, args, rng):
    """Adam on cross entropy. Multiplicative noise on the inputs of each layer and on the weights
    stands in for rounding to 4 bits, so that the network does not lean on small differences; the
    gradient passes straight through it."""
    weights = [rng.normal(0, (2 / k) ** 0.5, (n, k)).astype(np.float32)
               for k, n in zip(SIZES, SIZES[1:])]
    biases = [np.zeros(n, np.float32) for n in SIZES[1:]]
    params = weights + biases
    m, v = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    steps_per_epoch = len(x) // args.batch
    num_steps = args.epochs * steps_per_epoch

    def noisy(a):
        return a * (1 + args.noise * rng.standard_normal(a.shape, np.float32))

    for epoch in range(args.epochs):
        order, correct, start = rng.permutation(len(x)), 0, time.time()
        for i in range(steps_per_epoch):
            rows = order[i * args.batch:(i + 1) * args.batch]
            w = [noisy(p) for p in weights]
            values = [noisy(x[rows])]
            for j in range(3):
                z = values[-1] @ w[j].T + biases[j]
                values.append(noisy(np.maximum(z, 0)) if j < 2 else z)
            logits = values.pop()
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            correct += (p.argmax(1) == y[rows]).sum()
            p[np.arange(len(rows)), y[rows]] -= 1
            grad = p / len(rows)
            grads = [None] * 6
            for j in (2, 1, 0):
                grads[j], grads[3 + j] = grad.T @ values[j], grad.sum(0)
                if j:
                    grad = (grad @ w[j]) * (values[j] > 0)
            step = epoch * steps_per_epoch + i + 1
            rate = args.rate * 0.5 * (1 + np.cos(np.pi * step / num_steps))
            for j, g in enumerate(grads):
                m[j] += 0.1 * (g - m[j])
                v[j] += 0.001 * (g * g - v[j])
                update = m[j] / (1 - 0.9 ** step) / (np.sqrt(v[j] / (1 - 0.999 ** step)) + 1e-8)
                params[j] -= np.float32(rate) * (update + (args.decay * params[j] if j < 3 else 0))
        print(f"epoch {epoch + 1:2}: training accuracy {correct / (steps_per_epoch * args.batch):.4f}"
              f", {time.time() - start:.1f} s", flush=True)
    return weights, biases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--out", type=Path,
                        default=Path(__file__).with_name("fashion_mnist.safetensors"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    x, y = load(args.data, "train")
    weights, biases = train(x, y, args, np.random.default_rng(args.seed))

    rounded = [to_bf16(w) for w in weights]
    tensors = {}
    for i, (w, b) in enumerate(zip(rounded, biases), start=1):
        tensors[f"fc{i}.weight"], tensors[f"fc{i}.bias"] = ("BF16", w), ("F32", b)
    write_safetensors(args.out, tensors)
    x, y = load(args.data, "t10k")
    logits = forward(x, [from_bf16(w) for w in rounded], biases)
    print(f"test accuracy {np.mean(logits.argmax(1) == y):.4f}, wrote {args.out}")


if __name__ == "__main__":
    main()
