// SPDX-License-Identifier: Apache-2.0
// Replaces the kernel of comm/nccl/divide.cu on the streams of the stand-in.
#include <comm/local_reduction.hpp>
#include <comm/nccl/divide.hpp>
#include <core/numeric/half.hpp>
#include <tests/comm/nccl/fake_device.hpp>

namespace shardmark {
namespace {

template<class T>
void divide_halves(T* data, std::int64_t elems, int divisor) {
  for (std::int64_t i = 0; i < elems; ++i)
    round_to(data[i], widen(data[i]) / static_cast<float>(divisor));
}

}  // namespace

void divide_on_stream(device::Stream stream, Dtype dtype, void* data, std::int64_t elems,
                      int divisor) {
  test::enqueue(stream, [=] {
    if (!test::fake().moves_data) return true;
    if (dtype == Dtype::bf16)
      divide_halves(static_cast<Bf16*>(data), elems, divisor);
    else if (dtype == Dtype::fp16)
      divide_halves(static_cast<Fp16*>(data), elems, divisor);
    else
      divide(dtype, data, elems, divisor);
    return true;
  });
}

}  // namespace shardmark
