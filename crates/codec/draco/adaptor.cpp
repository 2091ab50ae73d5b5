// Draco's decoder of point clouds behind functions of C, for ropeway-codec to load at run time: Draco has an interface in C++ only, which
// changes with its versions. `make draco` builds it.

#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <string>

#include <draco/compression/point_cloud/point_cloud_kd_tree_decoder.h>
#include <draco/compression/point_cloud/point_cloud_sequential_decoder.h>
#include <draco/compression/config/decoder_options.h>
#include <draco/core/decoder_buffer.h>
#include <draco/point_cloud/point_cloud.h>

namespace {

// The largest size of a point's values, in bytes: sixteen attributes of four floats.
constexpr uint64_t LARGEST_POINT = 256;

enum Status { BROKEN = -1, NO_ROOM = -2, TOO_LARGE = -3, NO_MEMORY = -4, DONE = 0, DONE_WITH_COLOURS = 1 };

struct Limits {
    uint64_t room;
    uint64_t count = 0;
    uint64_t point = 0;
    Status refused = DONE;
};

// One of Draco's decoders, which stops before it takes memory for more points than there is room for, or for larger ones. Decoding goes
// by these steps: the number of points, what each has, and only then the values.
template <typename Base>
class Limited : public Base {
  public:
    explicit Limited(Limits& limits) : limits(limits) {}

  protected:
    bool DecodeGeometryData() override {
        if (!Base::DecodeGeometryData()) {
            return false;
        }
        limits.count = this->point_cloud()->num_points();
        if (limits.count > limits.room) {
            limits.refused = NO_ROOM;
            return false;
        }
        return true;
    }

    bool DecodeAllAttributes() override {
        for (int i = 0; i < this->point_cloud()->num_attributes(); ++i) {
            const draco::PointAttribute* attribute = this->point_cloud()->attribute(i);
            limits.point += uint64_t(attribute->num_components()) * draco::DataTypeLength(attribute->data_type());
        }
        if (limits.point > LARGEST_POINT) {
            limits.refused = TOO_LARGE;
            return false;
        }
        return Base::DecodeAllAttributes();
    }

  private:
    Limits& limits;
};

template <typename Decoder>
draco::Status decode(draco::DecoderBuffer& buffer, Limits& limits, draco::PointCloud& cloud) {
    Limited<Decoder> decoder(limits);
    draco::DecoderOptions options;
    return decoder.Decode(options, &buffer, &cloud);
}

void say(char* text, size_t length, const std::string& sentence) {
    std::snprintf(text, length, "%s", sentence.c_str());
}

int points(const uint8_t* chunk, size_t size, float* xyz, uint8_t* rgba, Limits& limits, char* text, size_t length) {
    draco::DecoderBuffer buffer;
    buffer.Init(reinterpret_cast<const char*>(chunk), size);
    draco::DecoderBuffer beginning(buffer);
    draco::DracoHeader header;
    const draco::Status readable = draco::PointCloudDecoder::DecodeHeader(&beginning, &header);
    if (!readable.ok()) {
        say(text, length, "it does not begin as Draco's streams do");
        return BROKEN;
    }
    if (header.encoder_type != draco::POINT_CLOUD) {
        say(text, length, "it is a mesh; encode it as a point cloud");
        return BROKEN;
    }
    draco::PointCloud cloud;
    const bool tree = header.encoder_method == draco::POINT_CLOUD_KD_TREE_ENCODING;
    const draco::Status status = tree ? decode<draco::PointCloudKdTreeDecoder>(buffer, limits, cloud)
                                      : decode<draco::PointCloudSequentialDecoder>(buffer, limits, cloud);
    if (limits.refused != DONE) {
        if (limits.refused == TOO_LARGE) {
            say(text, length, "each point has " + std::to_string(limits.point) + " bytes, and " + std::to_string(LARGEST_POINT) + " are the most");
        }
        return limits.refused;
    }
    if (!status.ok()) {
        say(text, length, "it is broken, or cut short");
        return BROKEN;
    }
    const draco::PointAttribute* places = cloud.GetNamedAttribute(draco::GeometryAttribute::POSITION);
    if (places == nullptr || places->num_components() != 3) {
        say(text, length, "its points have no x, y and z");
        return BROKEN;
    }
    // Compared again: what follows writes by it.
    limits.count = cloud.num_points();
    if (limits.count > limits.room) {
        return NO_ROOM;
    }
    const draco::PointAttribute* colours = cloud.GetNamedAttribute(draco::GeometryAttribute::COLOR);
    for (uint32_t i = 0; i < limits.count; ++i) {
        const draco::AttributeValueIndex at = places->mapped_index(draco::PointIndex(i));
        if (at.value() >= places->size() || !places->ConvertValue<float>(at, 3, xyz + size_t(i) * 3)) {
            say(text, length, "point " + std::to_string(i) + " has no place");
            return BROKEN;
        }
    }
    if (rgba == nullptr) {
        return colours == nullptr ? DONE : DONE_WITH_COLOURS;
    }
    const int components = colours == nullptr ? 0 : colours->num_components();
    for (uint32_t i = 0; i < limits.count; ++i) {
        uint8_t* const colour = rgba + size_t(i) * 4;
        colour[0] = colour[1] = colour[2] = colour[3] = 255;
        if (components == 0) {
            continue;
        }
        const draco::AttributeValueIndex at = colours->mapped_index(draco::PointIndex(i));
        if (at.value() >= colours->size() || !colours->ConvertValue<uint8_t>(at, components < 4 ? components : 4, colour)) {
            say(text, length, "point " + std::to_string(i) + " has no colour");
            return BROKEN;
        }
        // One component is grey, two are grey and how opaque it is.
        if (components < 3) {
            colour[3] = components == 2 ? colour[1] : 255;
            colour[1] = colour[2] = colour[0];
        }
    }
    return colours == nullptr ? DONE : DONE_WITH_COLOURS;
}

}  // namespace

extern "C" {

// The number of this interface.
__attribute__((visibility("default"))) int ropeway_draco_interface() noexcept { return 1; }

// Decodes a point cloud into x, y and z of each point, and into its colours unless `rgba` is null. Both have room for `room` points; `count`
// becomes how many there are, `text` a sentence where the result is negative (`Status`).
__attribute__((visibility("default"))) int ropeway_draco_points(const uint8_t* chunk, size_t size, float* xyz, uint8_t* rgba, uint64_t room,
                                                                uint64_t* count, char* text, size_t length) noexcept {
    Limits limits{room};
    int status;
    try {
        status = points(chunk, size, xyz, rgba, limits, text, length);
    } catch (const std::bad_alloc&) {
        status = NO_MEMORY;
    } catch (...) {
        std::snprintf(text, length, "Draco gave it up");
        status = BROKEN;
    }
    *count = limits.count;
    return status;
}
}
