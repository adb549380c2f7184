// Operations that replace each level by another one, in place, as Pillow's ImageOps do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

void invert(uint8_t* bytes, size_t size);

// Keeps the upper `bits`, from 0 to 8.
void posterize(uint8_t* bytes, size_t size, int bits);

// Inverts levels from `first` on, which is from 0 to 256.
void solarize(uint8_t* bytes, size_t size, int first);

// Adds from -255 to 255 to levels below `first`, and clips to a byte.
void solarize_add(uint8_t* bytes, size_t size, int add, int first);

// Replaces the levels of each channel by the entries of its table.
void map_channels(uint8_t* pixels, size_t count, const uint8_t (&tables)[3][256]);

// Stretches the levels of each channel to 0 to 255.
void autocontrast(uint8_t* pixels, size_t count);

// Makes the levels of each channel about equally frequent.
void equalize(uint8_t* pixels, size_t count);

}  // namespace headrace
