// Scratch memory that grows as needed and is kept, so that a warm thread allocates nothing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace headrace {

template <typename T>
class Buffer {
 public:
  // Returns at least `size` elements. All are zero if it had to grow, else they keep their values.
  T* reserve(size_t size) {
    if (size > capacity_) {
      const size_t capacity = size + size / 2;
      trim(0);  // first, so that old and new are never held together
      // intentional: calloc, which gets zeroed pages from the system at no cost.
      data_.reset(static_cast<T*>(std::calloc(capacity, sizeof(T))));
      if (data_ == nullptr) throw std::bad_alloc();
      capacity_ = capacity;
    }
    return data_.get();
  }
  void clear() {
    if (capacity_ != 0) std::memset(data_.get(), 0, capacity_ * sizeof(T));
  }
  // Frees the memory if it is more than `limit` bytes.
  void trim(size_t limit) {
    if (capacity_ * sizeof(T) <= limit) return;
    data_.reset();
    capacity_ = 0;
  }
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t capacity_ = 0;
};

}  // namespace headrace
