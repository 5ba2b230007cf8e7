// SPDX-License-Identifier: Apache-2.0
// MatMul in GPU builds: the GPU's library on the stream of the space, with a workspace from the
// caller. The host does not wait; events on the stream measure the time inside products.
#include <compare>
#include <map>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/nn/gpu/check.hpp>
#include <core/nn/gpu/product.hpp>
#include <core/nn/gpu/product_times.hpp>
#include <core/nn/gpu/stream.hpp>
#include <core/nn/products/matmul.hpp>

namespace shardmark {

struct MatMul::Impl {
  struct Key {
    MatMulShape shape;
    std::uint32_t alignment;
    auto operator<=>(const Key&) const = default;
  };
  explicit Impl(std::int64_t cap) : cap_bytes(cap) { SHARDMARK_PRODUCT(Create, &handle); }
  ~Impl() {
    products.clear();
    static_cast<void>(SHARDMARK_BLAS(Destroy)(handle));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::int64_t cap_bytes;
  device::blas::Handle handle = nullptr;
  std::map<Key, device::Product> products;
  device::ProductTimes times;
};

MatMul::MatMul(std::int64_t scratch_cap_bytes, Bf16Products bf16)
    : impl_(std::make_unique<Impl>(scratch_cap_bytes)), bf16_(bf16) {}
MatMul::~MatMul() = default;

std::int64_t MatMul::matmul_ns() const {
  return impl_->times.total_ns();
}

bool MatMul::adds_elsewhere() {
  return true;
}

void MatMul::operator()(const Space& space, const MatMulShape& shape, const void* a, const void* b,
                        void* c, const void* bias, std::span<std::byte> scratch,
                        const void* added) {
  ++calls_;
  flops_ += shape.flops();
  if (recording_) recorded_.push_back(shape);
  require_result_type(shape);
  // The library requires an aligned workspace; what remains of the caller's scratch is the limit.
  constexpr std::uintptr_t line_bytes = 256;
  const auto base = reinterpret_cast<std::uintptr_t>(scratch.data());
  const std::uintptr_t skipped = (base + line_bytes - 1) / line_bytes * line_bytes - base;
  const auto cap = static_cast<std::size_t>(impl_->cap_bytes);
  const std::size_t room = std::min(cap, scratch.size() > skipped ? scratch.size() - skipped : 0);
  const device::ProductOperands operands{a, b, c, shape.bias ? bias : nullptr, added};
  const Impl::Key key{shape, device::alignment_of(operands)};
  auto it = impl_->products.find(key);
  if (it == impl_->products.end())
    it = impl_->products.emplace(key, device::Product(impl_->handle, shape, key.alignment, room))
             .first;
  if (it->second.workspace_bytes() > room)
    throw MemoryError(
        fmt::format("{}: needs {} bytes of scratch: the workspace has {}: size it "
                    "with workspace_bytes",
                    to_string(shape), it->second.workspace_bytes(), room));
  device::Stream stream = device::stream_of(space);
  impl_->times.begin(stream);
  it->second.run(impl_->handle, stream, operands, scratch.data() + skipped);
  impl_->times.end(stream);
  if (recording_) recorded_ns_.push_back(impl_->times.last_ns());
}

}  // namespace shardmark
