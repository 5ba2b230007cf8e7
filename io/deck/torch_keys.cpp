// SPDX-License-Identifier: Apache-2.0
// The keys of the section `torch`: the arguments that a training script gives to PyTorch's
// DistributedDataParallel, ZeroRedundancyOptimizer and fully_shard, under PyTorch's names.
#include <io/deck/deck_keys.hpp>

namespace shardmark {
namespace {

using enum KeyType;
using T = TorchSpec;

constexpr double most_modules = 1e6, most_ratio = 1e9;
constexpr std::string_view last_micro_batch =
    "`false`: the script sets it for the last micro-batch of a step only";

// clang-format off
constexpr Key torch_keys[] = {
    Key("fully_shard", array, "null", "the calls in their order")
        .if_absent("each block, then the root"),
    Key("reshard_after_forward", any, "null", "`true`, `false`, or a number of ranks"),
    Key("mesh", array, "null", "`[shard]`, or `[replicate, shard]` for hybrid sharding")
        .if_absent("[world]"),
    Key("shard_placement_fn", in<&T::shard_dim>, "the dimension along which tensors are cut")
        .within({0, 16}),
    Key("mp_policy", object, "null", "`param_dtype` and `reduce_dtype`").if_absent("fp32"),
    Key("offload_policy", object_or_null, "null", "an object is a `CPUOffloadPolicy`"),
    Key("set_modules_to_forward_prefetch", in<&T::forward_prefetch>,
        "how many further groups each group prefetches").within({0, most_modules}),
    Key("set_modules_to_backward_prefetch", in<&T::backward_prefetch>,
        "how many further groups each group prefetches").within({0, most_modules}),
    Key("set_requires_gradient_sync", in<&T::requires_gradient_sync>, last_micro_batch),
    Key("set_requires_all_reduce", in<&T::requires_all_reduce>, last_micro_batch),
    Key("set_reshard_after_backward", in<&T::reshard_after_backward>, last_micro_batch),
    Key("set_is_last_backward", in<&T::is_last_backward>, last_micro_batch),
    Key("set_unshard_in_backward", object, "null", "an object of modules").if_absent("all true"),
    Key("set_gradient_divide_factor", in<&T::gradient_divide_factor>,
        "by what gradients are divided").within({0, most_ratio, true}).if_absent("the ranks"),
    Key("set_force_sum_reduction_for_comms", in<&T::force_sum_reduction>,
        "divides in a separate operation after the sum"),
    Key("set_reduce_scatter_max_input_buffers", in<&T::max_input_buffers>,
        "how many reduce_scatter inputs are kept").within({1, most_modules}),
    Key("frozen", array, "null", "modules or parameters with `requires_grad=False`"),
    Key("bucket_cap_mb", in<&T::bucket_cap_mb>, "the size at which a bucket closes")
        .within({0, most_ratio, true}).if_absent("25, and 1 for the first bucket"),
    Key("find_unused_parameters", in<&T::find_unused_parameters>, "as in PyTorch"),
    Key("static_graph", in<&T::static_graph>, "as in PyTorch"),
    Key("gradient_as_bucket_view", in<&T::gradient_as_bucket_view>, "as in PyTorch"),
    Key("init_sync", in<&T::init_sync>,
        "ranks compare shapes and take rank 0's values at the start"),
    Key("no_sync", in<&T::no_sync>, "micro-batches before the last one run under `no_sync()`"),
    Key("parameters_as_bucket_view", in<&T::parameters_as_bucket_view>,
        "ZeroRedundancyOptimizer sends one bucket per rank"),
};

constexpr Key mp_policy_keys[] = {
    Key("param_dtype", word, "null", "the type of parameters in forward and backward")
        .one_of("fp32|bf16|fp16"),
    Key("reduce_dtype", word, "null", "the type in which gradients are sent")
        .one_of("fp32|bf16|fp16"),
    Key("output_dtype", any, "null"),
    Key("cast_forward_inputs", any, "null"),
};

constexpr Key offload_policy_keys[] = {
    Key("pin_memory", in<&T::pin_memory>, "buffers on the host are page-locked"),
};
// clang-format on

}  // namespace

std::span<const Section> torch_sections() {
  static constexpr Section sections[] = {
      {.path = "torch", .keys = torch_keys},
      {.path = "torch.mp_policy", .keys = mp_policy_keys},
      {.path = "torch.offload_policy", .keys = offload_policy_keys},
  };
  return sections;
}

}  // namespace shardmark
