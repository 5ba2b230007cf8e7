// SPDX-License-Identifier: Apache-2.0
// The work of Muon's update of a matrix, in the order of core/nn/optimizer/muon.cpp.
#include <algorithm>

#include <core/plan/deck/optimizers.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {
namespace {

class MuonWork {
 public:
  MuonWork(const Program& program, const Param& param, Dtype grad, Work& work)
      : muon_(program.optimizer),
        grad_(grad),
        dtype_(newton_schulz_type(program.optimizer)),
        rows_(param.shape[0]),
        cols_(param.shape[1]),
        n_(std::min(rows_, cols_)),
        work_(work) {}

  void add() {
    const std::int64_t elems = rows_ * cols_;
    const bool rounds_first = muon_ == Optimizer::standard_muon;
    const std::int64_t size = dtype_bytes(grad_), half = dtype_bytes(dtype_);
    const Dtype measured = rounds_first ? dtype_ : grad_;
    stream("sum_squares", grad_, grad_, elems, size);
    stream("muon_momentum", grad_, grad_, elems, 4 * size);
    if (rounds_first) stream("convert", dtype_, grad_, elems, half + size);
    stream("sum_squares", measured, measured, elems, dtype_bytes(measured));
    stream("muon_normalize", dtype_, grad_, elems, half + size);
    iterates_on_gram(muon_, rows_, cols_) ? on_gram() : standard();
    stream("muon_write", grad_, dtype_, elems, half + size);
  }

 private:
  void stream(std::string_view kernel, Dtype dtype, Dtype source, std::int64_t elems,
              std::int64_t bytes_per_elem) {
    work_.streams.push_back({.kernel = kernel,
                             .dtype = dtype,
                             .source = source,
                             .elems = static_cast<double>(elems),
                             .bytes = static_cast<double>(elems * bytes_per_elem)});
  }
  void scaled(std::int64_t elems) { stream("muon_scale", dtype_, dtype_, elems, 4); }
  void product(Product p) {
    p.type = p.c_type = dtype_;
    work_.products.push_back(p);
  }
  void add_product() {
    scaled(n_ * n_);
    product({.m = n_, .n = n_, .k = n_, .accumulate = true});
  }
  void polynomial() {
    scaled(n_ * n_);
    add_product();
  }
  void gram_matrix() {
    const bool tall = rows_ > cols_;
    product(
        {.m = n_, .n = n_, .k = std::max(rows_, cols_), .transpose_a = tall, .transpose_b = !tall});
  }
  void apply(bool adds) {
    if (adds) scaled(rows_ * cols_);
    product({.m = rows_, .n = cols_, .k = n_, .transpose_b = rows_ > cols_, .accumulate = adds});
  }

  void standard() {
    for (int step = 0; step < newton_schulz_steps; ++step) {
      gram_matrix();
      polynomial();
      apply(true);
    }
  }
  void on_gram() {
    gram_matrix();
    for (int step = 0; step < newton_schulz_steps; ++step) {
      if (step == gram_restart) {
        apply(false);
        gram_matrix();
      }
      polynomial();
      if (step == 0 || step == gram_restart) {
        scaled(n_ * n_);
        stream("muon_diagonal", dtype_, dtype_, n_, 4);
      } else {
        add_product();
      }
      if (step + 1 == newton_schulz_steps || step + 1 == gram_restart) continue;
      add_product();
      add_product();
    }
    apply(false);
  }

  const Optimizer muon_;
  const Dtype grad_, dtype_;
  const std::int64_t rows_, cols_, n_;
  Work& work_;
};

}  // namespace

void add_muon_work(const Program& program, const Event& event, Work& work) {
  const Operand& grad = program.operands[event.operands.first];
  MuonWork(program, program.model.params[program.param_ids[event.params.first]],
           program.slots[grad.slot].dtype, work)
      .add();
}

}  // namespace shardmark
