// Scratch memory that grows as needed and is kept, so that a warm thread allocates nothing.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace headrace {

template <typename T>
class Buffer {
 public:
  // At least `size` elements; what was there is lost when it has to grow.
  T* reserve(size_t size) {
    if (size > capacity_) {
      const size_t capacity = size + size / 2;
      data_.reset();  // first, so that old and new are never held together
      capacity_ = 0;
      data_.reset(new T[capacity]);
      capacity_ = capacity;
    }
    return data_.get();
  }
  // The same, all zero when grown.
  T* reserve_zeroed(size_t size) {
    if (size > capacity_) {
      reserve(size);
      clear();
    }
    return data_.get();
  }
  void clear() {
    if (capacity_ != 0) std::memset(data_.get(), 0, capacity_ * sizeof(T));
  }
  // Gives back what takes more than `limit` bytes.
  void trim(size_t limit) {
    if (capacity_ * sizeof(T) <= limit) return;
    data_.reset();
    capacity_ = 0;
  }
  T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  size_t capacity_ = 0;
};

}  // namespace headrace
