#!/usr/bin/env bash
# A trained float network through the whole path: quantize its checkpoint to MXFP4, classify the
# 10,000 Fashion-MNIST test images with both, compare. See examples/fashion_mnist/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
float_model=examples/fashion_mnist/fashion_mnist.safetensors
mxfp4_model=build/demo/fashion_mnist-mxfp4.safetensors

cmake --preset demo
cmake --build --preset demo
build/demo/cli/mxgemm quantize "$float_model" -o "$mxfp4_model" --short-block --force
build/demo/cli/mxgemm inspect "$mxfp4_model"
build/demo/examples/classify "$float_model" "$mxfp4_model" "$@"
