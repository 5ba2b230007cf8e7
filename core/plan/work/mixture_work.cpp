// SPDX-License-Identifier: Apache-2.0
// The work of a mixture of experts, in the order of core/nn/models/mixture.hpp.
#include <algorithm>

#include <core/plan/work/work_lists.hpp>

namespace shardmark {
namespace {

class MixtureWork : private WorkLists {
 public:
  MixtureWork(const TransformerDims& d, bool trained, bool accumulate, Work& work)
      : WorkLists(d.dtype, work),
        d_(d),
        moe_(d.decoder->moe),
        rows_(d.rows()),
        pairs_(pairs_of(d)),
        trained_(trained),
        accumulate_(accumulate) {}

  void forward(Role role) {
    const std::int64_t h = d_.hidden, s = moe_.shared_ffn;
    switch (role) {
      case Role::shared_gate:
      case Role::shared_up: return linear_forward({rows_, h, s}, d_.dtype);
      case Role::shared_down:
        stream(activation_kernel(d_.decoder->mlp.activation, false), rows_ * s, 1, 3);
        return linear_forward({rows_, s, h}, d_.dtype);
      case Role::router: linear_forward({rows_, h, moe_.experts}, Dtype::fp32); return choose();
      case Role::experts: return experts_forward();
      case Role::shared_router: return stream("add_shared_expert", rows_ * h, h, 5);
      default: return;
    }
  }
  void backward(Role role) {
    const std::int64_t h = d_.hidden, s = moe_.shared_ffn;
    switch (role) {
      case Role::shared_router:
        typed("add_shared_expert_backward", Dtype::fp32, rows_ * h, h,
              static_cast<double>(rows_ * h * (3 * dtype_bytes(d_.dtype) + 4)), 1);
        if (trained_) stream("shared_weight_backward", rows_ * h, h, 1);
        return;
      case Role::experts: return experts_backward();
      case Role::router:
        if (moe_.balance_loss > 0)
          small("balance_gradient", balance_elems(d_, d_.layers), moe_.experts);
        small("choose_experts_backward", rows_ * moe_.experts, moe_.experts);
        product_backward(moe_.experts);
        if (moe_.bias) bias_backward(rows_ * moe_.experts, moe_.experts, 1);
        return;
      case Role::shared_down:
        linear_input({rows_, s, h}, d_.dtype);
        stream(activation_kernel(d_.decoder->mlp.activation, true), rows_ * s, 1, 6);
        return product_weight({rows_, s, h});
      case Role::shared_up: return product_backward(s, moe_.shared_factor);
      case Role::shared_gate: return product_backward(s);
      default: return;
    }
  }

  // What surrounds the pass of divided experts. Ranks that divide layers as well have lanes of
  // rows.
  void exchange(Kernel kernel) {
    const std::int64_t h = d_.hidden;
    const RowLanes by = row_lanes(d_);
    const bool lanes = d_.part.cuts();
    switch (kernel) {
      case Kernel::count_routed: return;  // a few integers, which the host reads
      case Kernel::forward_begin:
        if (lanes) small("empty_lanes", by.all_places(), 1);
        if (lanes) small("place_in_lanes", pairs_, moe_.experts);
        small(lanes ? "count_lane_rows" : "count_rows", moe_.experts, 1);
        stream(lanes ? "collect_lane" : "collect_rows", by.places * h, h, 2);
        if (lanes) small("describe_lane", by.places, 3);
        if (lanes) small("count_lane", moe_.experts, 1);
        return;
      case Kernel::forward_end:
        stream("convert", by.all_places() * h, 1, 2);
        return combine(d_.dtype, false);
      case Kernel::backward_begin:
        return stream(lanes ? "weigh_lanes" : "weigh_gradients", by.all_places() * h, h, 3);
      default:
        if (!lanes) return combine(Dtype::fp32, moe_.shared_ffn > 0);
        typed("combine_lane", Dtype::fp32, rows_ * h, h,
              static_cast<double>(by.places * h * dtype_bytes(d_.dtype) + 4 * rows_ * h), 1);
        return small("own_weights", pairs_, 1);
    }
  }

 private:
  void product_weight(const LinearShape& s) {
    if (trained_) linear_weight(s, accumulate_);
  }
  // Lists the backward pass of a product whose input is the mixture's input. The gradient of that
  // input is in fp32, and is accumulated unless this product is the first to make it.
  void product_backward(std::int64_t out, bool adds = true) {
    linear_input({rows_, d_.hidden, out}, Dtype::fp32, adds);
    product_weight({rows_, d_.hidden, out});
  }

  void bias_backward(std::int64_t elems, std::int64_t columns, std::int64_t launches) {
    if (trained_)
      typed("bias_backward", d_.dtype, elems, columns,
            static_cast<double>(elems * dtype_bytes(d_.dtype)), launches);
  }
  std::string_view gate_kernel(bool backward) const {
    const Activation own = moe_.gate.plain() ? d_.decoder->mlp.activation : Activation::silu;
    return activation_kernel(own, backward);
  }

  // Kernels over integers and probabilities.
  void small(std::string_view kernel, std::int64_t elems, std::int64_t width) {
    typed(kernel, Dtype::fp32, elems, width, static_cast<double>(elems) * 4, 1);
  }
  void choose() {
    small("choose_experts", rows_ * moe_.experts, moe_.experts);
    small("count_pairs", moe_.experts * pairs_, pairs_);
    small("start_experts", moe_.experts, moe_.experts);
    small("place_pairs", moe_.experts * pairs_, pairs_);
    if (moe_.balance_loss > 0) small("balance_sums", rows_ * moe_.experts, rows_);
  }

  // Calls f(layers) for the experts that have as many rows, with a layer of each of them.
  template<class F>
  void for_each_size(std::int64_t in, std::int64_t out, const F& f) const {
    const std::int64_t fewest = pairs_ / moe_.experts, larger = pairs_ % moe_.experts;
    if (larger > 0) f(LinearShape{fewest + 1, in, out, moe_.in_out, larger});
    if (fewest > 0) f(LinearShape{fewest, in, out, moe_.in_out, moe_.experts - larger});
  }
  void combine(Dtype into, bool add) {
    const auto elems = static_cast<double>(pairs_ * d_.hidden * dtype_bytes(d_.dtype));
    const std::int64_t arrays = add ? 2 : 1, out = rows_ * d_.hidden;
    typed("combine_rows", into, out, d_.hidden,
          elems + static_cast<double>(arrays * out * dtype_bytes(into)), 1);
  }

  // This rank's experts among those that ranks divide, with as many rows each.
  void divided_forward() {
    const std::int64_t h = d_.hidden, f = moe_.ffn, rows = arriving_pairs(d_);
    small("place_arrivals", rows, 1);
    stream("sort_arrivals", rows * h, h, 2);
    linear_forward(own_layers(h, f, 2), d_.dtype);
    stream(activation_kernel(d_.decoder->mlp.activation, false), rows * f, 1, 3);
    linear_forward(own_layers(f, h), d_.dtype);
    stream("unsort_arrivals", rows * h, h, 2);
  }
  void divided_backward() {
    const std::int64_t h = d_.hidden, f = moe_.ffn, rows = arriving_pairs(d_);
    stream("sort_arrivals", rows * h, h, 2);
    linear_input(own_layers(f, h), d_.dtype);
    stream(activation_kernel(d_.decoder->mlp.activation, true), rows * f, 1, 6);
    product_weight(own_layers(f, h));
    product_weight(own_layers(h, f, 2));
    linear_input(own_layers(h, f), d_.dtype);
    linear_input(own_layers(h, f), d_.dtype, true);
    stream("unsort_arrivals", rows * h, h, 2);
  }
  // `layers` layers of each of this rank's experts.
  LinearShape own_layers(std::int64_t in, std::int64_t out, std::int64_t layers = 1) const {
    const std::int64_t own = moe_.experts / d_.expert_part.ranks;
    return {std::max<std::int64_t>(arriving_pairs(d_) / own, 1), in, out, false, layers * own};
  }

  void experts_forward() {
    if (d_.expert_part.cuts()) return divided_forward();
    const std::int64_t h = d_.hidden, f = moe_.ffn;
    stream("collect_rows", pairs_ * h, h, 2);
    for_each_size(h, 2 * f, [&](const LinearShape& s) { linear_forward(s, d_.dtype); });
    stream(gate_kernel(false), pairs_ * f, 1, 3);
    for_each_size(f, h, [&](const LinearShape& s) { linear_forward(s, d_.dtype); });
    combine(d_.dtype, false);
  }

  void experts_backward() {
    if (d_.expert_part.cuts()) return divided_backward();
    const std::int64_t h = d_.hidden, f = moe_.ffn;
    stream("collect_rows", pairs_ * h, h, 2);
    for_each_size(f, h, [&](const LinearShape& s) { linear_input(s, d_.dtype); });
    stream(gate_kernel(true), pairs_ * f, 1, 6);
    stream("weigh_pairs", pairs_ * f, f, 7);
    for_each_size(f, h, [&](const LinearShape& s) { product_weight(s); });
    if (moe_.bias) {
      stream("weigh_rows", pairs_ * h, h, 2);
      bias_backward(pairs_ * h, h, moe_.experts);
      bias_backward(pairs_ * 2 * f, 2 * f, moe_.experts);
    }
    stream("collect_rows", pairs_ * h, h, 2);
    for_each_size(h, 2 * f, [&](const LinearShape& s) {
      product_weight(s);
      linear_input(s, d_.dtype);
    });
    clear_unused();
    combine(Dtype::fp32, moe_.shared_ffn > 0);
  }

  // The gradients of experts without rows are zeros, unless gradients are added.
  void clear_unused() {
    const std::int64_t unused = std::max<std::int64_t>(moe_.experts - pairs_, 0);
    if (!trained_ || accumulate_ || unused == 0) return;
    for (const std::int64_t elems : {d_.hidden * moe_.ffn, 2 * d_.hidden * moe_.ffn})
      typed("clear", d_.dtype, elems, 1, static_cast<double>(elems * dtype_bytes(d_.dtype)),
            unused);
  }

  const TransformerDims& d_;
  const MoeSpec& moe_;
  const std::int64_t rows_, pairs_;
  const bool trained_, accumulate_;
};

}  // namespace

std::string_view activation_kernel(Activation activation, bool backward) {
  constexpr auto forwards = enum_names<Activation>("gelu_forward", "gelu_exact_forward",
                                                   "relu_forward", "swiglu_forward");
  constexpr auto backwards = enum_names<Activation>("gelu_backward", "gelu_exact_backward",
                                                    "relu_backward", "swiglu_backward");
  return (backward ? backwards : forwards)[activation];
}

void add_exchange_work(const TransformerDims& dims, Kernel kernel, Work& work) {
  MixtureWork(dims, false, false, work).exchange(kernel);
}

void add_mixture_work(const TransformerDims& dims, Role role, bool backward, bool trained,
                      bool accumulate, Work& work) {
  MixtureWork mixture(dims, trained, accumulate, work);
  backward ? mixture.backward(role) : mixture.forward(role);
}

}  // namespace shardmark
