#include "draco.h"
#include <cstring>
#include <draco/compression/decode.h>
#include <draco/compression/encode.h>
#include <draco/point_cloud/point_cloud_builder.h>

using namespace draco;

size_t draco_pack(const float *points, const uint8_t *colours, size_t count, int bits, void *to, size_t room)
{
    PointCloudBuilder builder;
    builder.Start(static_cast<PointIndex::ValueType>(count));
    int position = builder.AddAttribute(GeometryAttribute::POSITION, 3, DT_FLOAT32);
    int colour = builder.AddAttribute(GeometryAttribute::COLOR, 3, DT_UINT8);
    builder.SetAttributeValuesForAllPoints(position, points, 0);
    builder.SetAttributeValuesForAllPoints(colour, colours, 0);
    std::unique_ptr<PointCloud> cloud = builder.Finalize(false);
    Encoder encoder;
    encoder.SetEncodingMethod(POINT_CLOUD_SEQUENTIAL_ENCODING);
    encoder.SetAttributeQuantization(GeometryAttribute::POSITION, bits);
    EncoderBuffer out;
    if (!encoder.EncodePointCloudToBuffer(*cloud, &out).ok() || out.size() > room)
        return 0;
    std::memcpy(to, out.data(), out.size());
    return out.size();
}

size_t draco_unpack(const void *from, size_t size, float *points, uint8_t *colours, size_t most)
{
    DecoderBuffer in;
    in.Init(static_cast<const char *>(from), size);
    Decoder decoder;
    auto decoded = decoder.DecodePointCloudFromBuffer(&in);
    if (!decoded.ok())
        return 0;
    const PointCloud &cloud = *decoded.value();
    const PointAttribute *position = cloud.GetNamedAttribute(GeometryAttribute::POSITION);
    const PointAttribute *colour = cloud.GetNamedAttribute(GeometryAttribute::COLOR);
    size_t count = cloud.num_points();
    if (count > most || position == nullptr || position->data_type() != DT_FLOAT32 || position->num_components() != 3 ||
        colour == nullptr || colour->data_type() != DT_UINT8 || colour->num_components() < 3 || colour->num_components() > 4)
        return 0;
    for (PointIndex i(0); i < count; ++i) {
        colours[4 * i.value() + 3] = 255;
        position->GetMappedValue(i, points + 3 * i.value());
        colour->GetMappedValue(i, colours + 4 * i.value());
    }
    return count;
}
