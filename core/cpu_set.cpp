// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <sched.h>

#include <core/cpu_set.hpp>
#include <core/error.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

constexpr int word_bits = static_cast<int>(sizeof(unsigned long) * CHAR_BIT);
constexpr std::size_t most_words = (std::size_t{1} << 20) / word_bits;

cpu_set_t* as_kernel_set(unsigned long* words) {
  return reinterpret_cast<cpu_set_t*>(words);
}

// Whichever OpenMP runtime oneDNN or Kokkos have loaded, its functions are looked up by name.
template<class Function>
Function* of_openmp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// omp_get_proc_bind(): 0 means that threads are not bound.
int openmp_proc_bind() {
  auto* const bind = of_openmp<int()>("omp_get_proc_bind");
  return bind == nullptr ? 0 : bind();
}

// The cores of all places between which OpenMP distributes its threads.
CpuSet openmp_places() {
  CpuSet all;
  auto* const places = of_openmp<int()>("omp_get_num_places");
  auto* const size = of_openmp<int(int)>("omp_get_place_num_procs");
  auto* const ids = of_openmp<void(int, int*)>("omp_get_place_proc_ids");
  if (places == nullptr || size == nullptr || ids == nullptr) return all;
  for (int place = 0; place < places(); ++place) {
    std::vector<int> cores(static_cast<std::size_t>(size(place)));
    ids(place, cores.data());
    for (const int core : cores) all.add(core);
  }
  return all;
}

}  // namespace

CpuSet::CpuSet(const std::vector<int>& cores) {
  for (const int core : cores) add(core);
}

CpuSet CpuSet::of_words(std::vector<unsigned long> words) {
  CpuSet set;
  set.words_ = std::move(words);
  return set;
}

CpuSet CpuSet::of_thread() {
  // The kernel refuses a set that is smaller than its own, which has a bit for each possible core.
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    CpuSet set;
    set.words_.resize(words);
    if (sched_getaffinity(0, words * sizeof(unsigned long), as_kernel_set(set.words_.data())) == 0)
      return set;
    if (errno != EINVAL) break;
  }
  throw CommError(std::string("the cores of this process: cannot be read: ") +
                  std::strerror(errno));
}

CpuSet CpuSet::of_process() {
  CpuSet set = of_thread();
  if (openmp_proc_bind() != 0) set.add(openmp_places());
  return set;
}

bool CpuSet::contains(int core) const {
  const auto word = static_cast<std::size_t>(core / word_bits);
  return core >= 0 && word < words_.size() && (words_[word] >> (core % word_bits) & 1UL) != 0;
}

void CpuSet::add(int core) {
  const auto word = static_cast<std::size_t>(core / word_bits);
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= 1UL << (core % word_bits);
}

void CpuSet::add(const CpuSet& other) {
  for (const int core : other.cores()) add(core);
}

std::vector<int> CpuSet::cores() const {
  std::vector<int> list;
  for (int core = 0; core < static_cast<int>(words_.size()) * word_bits; ++core)
    if (contains(core)) list.push_back(core);
  return list;
}

std::string CpuSet::text() const {
  return format_numbers(cores());
}

bool CpuSet::bind_thread() const {
  std::vector<unsigned long> words = words_;
  return sched_setaffinity(0, words.size() * sizeof(unsigned long), as_kernel_set(words.data())) ==
         0;
}

std::string openmp_binding() {
  constexpr std::array<std::string_view, 5> names{"false", "true", "primary", "close", "spread"};
  const int bind = openmp_proc_bind();
  return std::string(
      names[bind > 0 && bind < static_cast<int>(names.size()) ? static_cast<std::size_t>(bind)
                                                              : 0]);
}

void run_on_all_cores_of_process() {
  if (openmp_proc_bind() == 0) return;
  CpuSet set = CpuSet::of_thread();
  set.add(openmp_places());
  static_cast<void>(set.bind_thread());  // it runs where it was started then
}

}  // namespace shardmark
